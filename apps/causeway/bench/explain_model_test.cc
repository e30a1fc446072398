#include "bench/explain_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/must.h"
#include "model/random_model.h"

namespace causeway::app::explain_model_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ExplainSettings settings(model::Family family) {
  ExplainSettings made{.config = model::random_model_config(family), .decode_batches = {1, 100}};
  made.config.heads = 8;
  made.config.kv_heads = 2;
  made.config.head_dim = 64;
  return made;
}

TEST(ExplainModel, ShowsEachStepThatWasAskedFor) {
  const std::string text = must(explain_model(settings(model::Family::kLlama)));
  EXPECT_THAT(text, HasSubstr("132 SMs"));
  EXPECT_THAT(text, HasSubstr("decode, batch 1, context 1024\n"));
  EXPECT_THAT(text, HasSubstr("decode, batch 100, context 1024\n"));
  EXPECT_THAT(text, HasSubstr("prefill, 8192 tokens\n"));
  EXPECT_THAT(text, HasSubstr("clusters of 8"));
  EXPECT_THAT(text, HasSubstr("gate and up"));
  EXPECT_THAT(text, Not(HasSubstr("experts")));
}

// Few and short sequences have a kernel that needs no plan.
TEST(ExplainModel, LongContextsArePlanned) {
  ExplainSettings few = settings(model::Family::kLlama);
  few.decode_batches = {1};
  EXPECT_THAT(must(explain_model(few)), Not(HasSubstr("attention plan")));
  few.decode_context = 100'000;
  EXPECT_THAT(must(explain_model(few)), HasSubstr("attention plan"));
}

TEST(ExplainModel, FewSmsAreDealtOut) {
  ExplainSettings slice = settings(model::Family::kQwen3Moe);
  slice.sm_count = 16;
  const std::string text = must(explain_model(slice));
  EXPECT_THAT(text, HasSubstr("16 SMs"));
  EXPECT_THAT(text, HasSubstr("16 CTAs"));
  EXPECT_THAT(text, HasSubstr("experts"));
}

}  // namespace
}  // namespace causeway::app::explain_model_test
