// The errors that the libraries return in truth, so that new words of theirs cannot lose their
// options.
#include "option_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/testing/temporary_directory.h"
#include "device/cuda/cuda_api.h"
#include "device/testing/fake_cuda.h"
#include "engine/testing/collecting_sink.h"
#include "fleet/catalogue.h"
#include "kernels/home_gemm/profile.h"
#include "schedule/hbm_plan.h"
#include "server/api/chat_body.h"
#include "server/api/prepare.h"
#include "slice/host_slice.h"
#include "slice/machine.h"
#include "topology/gpu_names.h"
#include "transfer/link_map.h"

namespace causeway::app::option_advice_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string said(schedule::HbmDemand demand) {
  const auto plan = schedule::plan_hbm(demand);
  return plan.ok() ? "" : with_options(plan.error().message);
}

TEST(OptionAdvice, OfThePlanOfHbm) {
  schedule::HbmDemand fits;
  fits.total = gib(80);
  fits.free = gib(78);
  fits.extent = mib(32);
  fits.workspace = fits.kv_min = gib(1);
  fits.weights = fits.weights_largest = gib(16);
  ASSERT_EQ(said(fits), "");
  schedule::HbmDemand demand = fits;
  demand.weights = demand.weights_largest = gib(130);
  EXPECT_THAT(said(demand), HasSubstr("(see --gpu-memory-utilization)"));
  demand = fits;
  demand.utilization = 2;
  EXPECT_THAT(said(demand), HasSubstr("(see --gpu-memory-utilization)"));
  for (const Bytes wanted : {gib(2), gib(200)}) {
    demand = fits;
    demand.weights_wanted = wanted;
    EXPECT_THAT(said(demand), HasSubstr("(see --weights-memory-bytes)"));
  }
}

TEST(OptionAdvice, OfTheContext) {
  TemporaryDirectory folder;
  std::ofstream(folder.path() / "config.json")
      << R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
             "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
             "vocab_size": 512, "max_position_embeddings": 128, "torch_dtype": "float32"})";
  const auto entry = fleet::load_entry(ModelId(0), {"m", folder.path()},
                                       {.max_model_len = Tokens(1 << 20), .chat_template = {}});
  ASSERT_FALSE(entry.ok());
  EXPECT_THAT(with_options(entry.error().message), HasSubstr("(see --max-model-len)"));
}

TEST(OptionAdvice, OfMemoryOnTheCpu) {
  const RealClock clock;
  slice::ModelHome home(clock, mib(64));
  const auto machine = slice::Machine::open_host({}, {}, home, clock);
  ASSERT_TRUE(machine.ok());
  engine::CollectingSink sink;
  const auto said = [&](Bytes kv, Bytes cache) {
    const auto opened =
        slice::open_host_slice({.kv = kv, .kv_frame = mib(4), .cache = cache}, **machine, sink);
    return opened.ok() ? "" : with_options(opened.error().message);
  };
  EXPECT_THAT(said(mib(1), Bytes(0)), HasSubstr("(see --kv-cache-memory-bytes, --kv-frame-bytes)"));
  EXPECT_THAT(said(mib(4), mib(1)), HasSubstr("(see --weights-memory-bytes)"));
}

TEST(OptionAdvice, OfAFolderOfModels) {
  TemporaryDirectory folder;
  const auto source = fleet::single_model(folder.path(), "");
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(with_options(source.error().message), HasSubstr("(see --models-dir)"));
}

TEST(OptionAdvice, OfARequestThatAServerRefuses) {
  fleet::CatalogueEntry entry;
  entry.vocab = 512;
  const auto error = server::check_token("prompt", 3587, entry);
  ASSERT_TRUE(error);
  EXPECT_THAT(with_options(error->message), HasSubstr("(see --vocab-size)"));
}

TEST(OptionAdvice, OfAChatThatAServerRefuses) {
  fleet::CatalogueEntry entry;
  entry.name = "m";
  server::GenerationRequest asked;
  asked.chat = std::make_unique<server::ChatBody>();
  const auto said = [&] {
    server::EncodedPrompt prompt;
    const auto error = server::encode_prompt({.asked = asked, .model = entry}, prompt);
    return error ? with_options(error->message) : "";
  };
  EXPECT_THAT(said(), HasSubstr("(see --chat-template)"));
  asked.calls_tools = true;
  entry.chat_template.emplace(text::ChatTemplate::compile("{{ messages }}").value());
  EXPECT_THAT(said(), HasSubstr("(see --chat-template)"));
  entry.chat_template.emplace(text::ChatTemplate::compile("{{ tools | tojson }}").value());
  EXPECT_THAT(said(), HasSubstr("(see --tool-call-parser)"));
}

TEST(OptionAdvice, OfMigInstances) {
  const std::vector<topology::NamedGpu> gpus = {{"GPU-1", "0000:1b:00.0", {"MIG-1"}}};
  const std::vector<std::string> seen = {"0000:1b:00.0"};
  for (const char* name : {"GPU-1", "MIG-1"}) {
    const auto number = topology::number_of_gpu(name, gpus, seen);
    ASSERT_FALSE(number.ok());
    EXPECT_THAT(with_options(number.error().message), HasSubstr("(see --slices MIG-…;MIG-…"));
  }
}

TEST(OptionAdvice, OfTheEnvironmentAndOfCommands) {
  const std::vector<topology::NamedGpu> gpus = {{"GPU-1", "0000:1b:00.0", {"MIG-1"}}};
  EXPECT_THAT(with_options(topology::number_of_gpu("GPU-7", gpus, {}).error().message),
              AllOf(HasSubstr("CUDA_VISIBLE_DEVICES"), HasSubstr("`causeway topology`")));
  EXPECT_THAT(with_options(topology::number_of_gpu("MIG-1", gpus, {}).error().message),
              HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(with_options(topology::instances_of_slices("MIG-1234", {}).error().message),
              HasSubstr("NVIDIA_MIG_MONITOR_DEVICES"));
  TemporaryDirectory folder;
  EXPECT_THAT(with_options(transfer::load_link_map(folder.path(), "m").error().message),
              HasSubstr("`causeway topology`"));
  EXPECT_THAT(with_options(kernels::home_gemm::parse_profiles(
                               R"({"format": "causeway-home-profile", "version": 2})")
                               .error()
                               .message),
              HasSubstr("`causeway profile`"));
  const std::pair<int, const char*> starts[] = {{device::kCudaStubLibrary, "LD_LIBRARY_PATH"},
                                                {device::kCudaNoDevice, "CUDA_VISIBLE_DEVICES"}};
  for (const auto& [result, variable] : starts) {
    device::testing::FakeCuda driver;
    driver.fail_next("cuInit", result);
    EXPECT_THAT(with_options(device::ask_cuda(driver.api()).error().message), HasSubstr(variable));
  }
}

TEST(OptionAdvice, OtherErrorsStayAsTheyAre) {
  EXPECT_EQ(with_options("cannot read a.json"), "cannot read a.json");
  EXPECT_THAT(with_options("--max-model-len: tokens that the model"), Not(HasSubstr("(see")));
}

}  // namespace
}  // namespace causeway::app::option_advice_test
