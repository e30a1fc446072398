#include "server/kept_models.h"

#include <gtest/gtest.h>

namespace causeway::server::kept_models_test {
namespace {

constexpr ModelId kOne(1), kTwo(2);
using Models = std::vector<ModelId>;

class KeptModelsTest : public ::testing::Test {
 protected:
  void serve(ModelId model, std::optional<Nanos> wish, Nanos until) {
    kept_.begin(model);
    kept_.end(model, wish, until);
  }
  KeptModels kept_;
};

TEST_F(KeptModelsTest, AModelLeavesOnceItsTimeHasPassed) {
  serve(kOne, seconds(5), seconds(10));
  EXPECT_EQ(kept_.due(seconds(14)).unload, Models());
  EXPECT_EQ(kept_.due(seconds(15)).unload, Models{kOne});
  EXPECT_EQ(kept_.due(seconds(16)).unload, Models{kOne}) << "it was refused: again";
  kept_.done(kOne);
  EXPECT_EQ(kept_.due(seconds(17)).unload, Models());
}

TEST_F(KeptModelsTest, ZeroIsAtOnce) {
  serve(kOne, Nanos(0), seconds(10));
  EXPECT_EQ(kept_.due(seconds(10)).unload, Models{kOne});
}

TEST_F(KeptModelsTest, ItStaysWhileRequestsRun) {
  kept_.begin(kOne);
  kept_.begin(kOne);
  kept_.end(kOne, Nanos(0), seconds(1));
  EXPECT_EQ(kept_.due(seconds(100)).unload, Models()) << "one runs";
  kept_.end(kOne, Nanos(0), seconds(101));
  EXPECT_EQ(kept_.due(seconds(101)).unload, Models{kOne});
  kept_.begin(kOne);
  EXPECT_EQ(kept_.due(seconds(102)).unload, Models());
  kept_.done(kOne);  // the unload before has been answered late
  kept_.end(kOne, seconds(1), seconds(103));
  EXPECT_EQ(kept_.due(seconds(104)).unload, Models{kOne});
}

TEST_F(KeptModelsTest, TheLastWishCounts) {
  serve(kOne, seconds(5), seconds(1));
  serve(kOne, seconds(100), seconds(2));
  EXPECT_EQ(kept_.due(seconds(50)).unload, Models());
  serve(kOne, std::nullopt, seconds(60));
  EXPECT_EQ(kept_.due(seconds(1000)).unload, Models()) << "no wish: it stays as ever";
}

TEST_F(KeptModelsTest, BelowZeroPinsOnce) {
  serve(kOne, Nanos(-1), seconds(1));
  serve(kTwo, seconds(1), seconds(1));
  const KeptModels::Due due = kept_.due(seconds(1));
  EXPECT_EQ(due.pin, Models{kOne});
  EXPECT_EQ(due.unload, Models());
  EXPECT_EQ(kept_.due(seconds(2)).pin, Models());
  EXPECT_EQ(kept_.due(seconds(3)).unload, Models{kTwo});
}

TEST_F(KeptModelsTest, OneThatDoesNotGoIsGivenUp) {
  serve(kOne, Nanos(0), seconds(1));
  EXPECT_EQ(kept_.due(seconds(11)).unload, Models{kOne});
  EXPECT_EQ(kept_.due(seconds(12)).unload, Models());
  EXPECT_EQ(kept_.due(seconds(11)).unload, Models()) << "it is forgotten";
}

}  // namespace
}  // namespace causeway::server::kept_models_test
