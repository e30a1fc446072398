#include "catalogue/synthetic_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/testing/temporary_directory.h"
#include "fleet/catalogue.h"
#include "model/config.h"

namespace causeway::bench::synthetic_catalogue_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) * 1e-9; }

TEST(SyntheticCatalogue, EightySevenModelsFitAHostAndADisk) {
  const auto catalogue = synthetic_catalogue({});
  ASSERT_EQ(catalogue.size(), 87u);
  std::set<std::string> names;
  for (const NamedConfig& model : catalogue) {
    const Bytes bytes = size_of(model.config.dtype) * model::parameter_count(model.config);
    EXPECT_GE(gigabytes(bytes), 0.5);
    EXPECT_LE(gigabytes(bytes), 3.0);
    EXPECT_TRUE(model::parse_config(model::config_json(model.config)).ok()) << model.name;
    EXPECT_TRUE(names.empty() || *names.rbegin() < model.name) << "in order";
    names.insert(model.name);
  }
  EXPECT_NEAR(gigabytes(bytes_of(catalogue).weights), 93, 3);
  EXPECT_LE(gigabytes(bytes_of(catalogue).files), 30);
}

TEST(SyntheticCatalogue, TheSeedSaysWhichModelHasWhichShape) {
  const auto names = [](std::uint64_t seed) {
    std::vector<std::string> all;
    for (const auto& model : synthetic_catalogue({.models = 200, .seed = seed})) {
      all.push_back(model.name);
    }
    return all;
  };
  EXPECT_EQ(names(1), names(1));
  EXPECT_NE(names(1), names(2));
  EXPECT_THAT(names(1).front(), HasSubstr("m000-"));
}

TEST(SyntheticCatalogue, TheKindSaysWhatModelsThereAre) {
  const auto experts = [](const char* kind) {
    const auto known = catalogue_kind_named(kind);
    EXPECT_TRUE(known.has_value()) << kind;
    std::int64_t models = 0;
    for (const NamedConfig& model : synthetic_catalogue({.kind = known.value()})) {
      models += model.config.moe.has_value();
      const Bytes bytes = size_of(model.config.dtype) * model::parameter_count(model.config);
      EXPECT_GE(gigabytes(bytes), 0.5) << model.name;
      EXPECT_LE(gigabytes(bytes), 3.0) << model.name;
      EXPECT_TRUE(model::parse_config(model::config_json(model.config)).ok()) << model.name;
      EXPECT_EQ(model.name.find("moe") != std::string::npos, model.config.moe.has_value());
    }
    return models;
  };
  EXPECT_EQ(experts("dense"), 0);
  EXPECT_EQ(experts("moe"), 87);
  EXPECT_THAT(experts("mixed"), ::testing::AllOf(::testing::Ge(20), ::testing::Le(50)));
  EXPECT_FALSE(catalogue_kind_named("sparse"));
}

TEST(SyntheticCatalogue, OneModelIsOneToo) {
  EXPECT_EQ(synthetic_catalogue({.models = 1}).size(), 1u);
}

TEST(WriteCatalogue, ModelsOfOneShapeShareFilesAndAllLoad) {
  const TemporaryDirectory directory;
  const fs::path folder = directory.path() / "models";
  const auto catalogue = synthetic_catalogue({.models = 24, .size = CatalogueSize::kTiny});
  int written = 0;
  ASSERT_TRUE(write_catalogue(folder, catalogue, [&](const auto&) { ++written; }).ok());
  EXPECT_LE(written, 12);
  const auto found = fleet::find_models(folder).value();
  ASSERT_EQ(found.size(), catalogue.size());
  std::size_t shared = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].name, catalogue[i].name);
    EXPECT_TRUE(fleet::load_entry(ModelId(0), found[i], {}).ok()) << found[i].name;
    shared += fs::hard_link_count(found[i].directory / "model.safetensors") > 1;
  }
  EXPECT_GE(shared, 12u);
}

TEST(WriteCatalogue, MixturesOfExpertsLoadToo) {
  const TemporaryDirectory directory;
  const auto catalogue = synthetic_catalogue(
      {.models = 12, .size = CatalogueSize::kTiny, .kind = CatalogueKind::kMixed});
  const Status written = write_catalogue(directory.path(), catalogue, {});
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto found = fleet::find_models(directory.path()).value();
  ASSERT_EQ(found.size(), catalogue.size());
  std::size_t experts = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(fleet::load_entry(ModelId(0), found[i], {}).ok()) << found[i].name;
    experts += model::load_config(found[i].directory).value().moe.has_value();
  }
  EXPECT_GT(experts, 0u);
  EXPECT_LT(experts, found.size());
}

TEST(WriteCatalogue, GoesOnWhereItWasBrokenOff) {
  const TemporaryDirectory directory;
  const auto catalogue = synthetic_catalogue({.models = 14, .size = CatalogueSize::kTiny});
  ASSERT_TRUE(write_catalogue(directory.path(), catalogue, {}).ok());
  const fs::path first = directory.path() / catalogue.front().name;
  fs::remove(first / "config.json");
  fs::remove(first / "tokenizer.json");
  fs::remove_all(directory.path() / catalogue.back().name);
  const Status again = write_catalogue(directory.path(), catalogue, {});
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(fleet::find_models(directory.path()).value().size(), catalogue.size());
}

TEST(WriteCatalogue, LeavesWhatIsOfOthers) {
  const TemporaryDirectory directory;
  fs::create_directories(directory.path() / "mine");
  std::ofstream(directory.path() / "mine/config.json") << "{}";
  const auto catalogue = synthetic_catalogue({.models = 2, .size = CatalogueSize::kTiny});
  EXPECT_THAT(write_catalogue(directory.path(), catalogue, {}).error().message, HasSubstr("mine"));
  EXPECT_FALSE(write_catalogue(directory.path() / "mine/config.json", catalogue, {}).ok());
}

}  // namespace
}  // namespace causeway::bench::synthetic_catalogue_test
