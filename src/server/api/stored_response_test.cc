// How a request goes on from an answer that was kept.
#include "server/api/stored_response.h"

#include <gtest/gtest.h>

namespace causeway::server::stored_response_test {
namespace {

using Json = nlohmann::ordered_json;

ChatBody chat_of(const std::string& fields) {
  GenerationRequest out;
  const auto error =
      parse_generation(Endpoint::kResponses, R"({"model":"m",)" + fields + "}", {}, out);
  EXPECT_FALSE(error) << fields << error->message;
  return error ? ChatBody() : *out.chat;
}

StoredResponse stored(const std::string& asked, const std::string& output) {
  return {conversation_of(chat_of(asked)), R"({"id":"resp_1","output":[)" + output + "]}"};
}

const std::string kSaid =
    R"({"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text",)"
    R"("text":"Let me see.","annotations":[],"logprobs":[]}],"status":"completed"})";
const std::string kCalled =
    R"({"id":"fc_1","type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\": 1}",)"
    R"("status":"completed"})";

TEST(StoredResponse, ARequestGoesOnAsIfAllHadBeenSent) {
  const std::string output = R"({"type":"function_call_output","call_id":"c1","output":"sunny"})";
  ChatBody later = chat_of("\"instructions\":\"Now.\",\"input\":[" + output + "]");
  const auto before = stored(R"("instructions":"Before.","input":"Is it?")", kSaid + "," + kCalled);
  ASSERT_FALSE(go_on_from(before, {}, later));
  EXPECT_EQ(later.messages, chat_of(R"("instructions":"Now.","input":[)"
                                    R"({"role":"user","content":"Is it?"},)" +
                                    kSaid + "," + kCalled + "," + output + "]")
                                .messages);
  EXPECT_EQ(later.messages[0]["content"], "Now.") << "those of before counted before";
  EXPECT_EQ(later.messages.size(), 4u);
}

TEST(StoredResponse, WithoutInstructionsThereAreNone) {
  ChatBody later = chat_of(R"("input":"more")");
  ASSERT_FALSE(go_on_from(stored(R"("instructions":"Before.","input":"x")", kSaid), {}, later));
  EXPECT_EQ(later.messages.dump(),
            R"([{"role":"user","content":"x"},{"role":"assistant","content":"Let me see."},)"
            R"({"role":"user","content":"more"}])");
  // And so on: what was joined is kept in its turn.
  ChatBody last = chat_of(R"("input":"end")");
  ASSERT_FALSE(go_on_from({conversation_of(later), R"({"output":[]})"}, {}, last));
  EXPECT_EQ(last.messages.size(), 4u);
}

TEST(StoredResponse, ACallThatWasCutShortIsAnError) {
  ChatBody later = chat_of(R"("input":"more")");
  const auto error = go_on_from(
      stored(R"("input":"x")",
             R"({"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\": "})"),
      {}, later);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, 400);
  EXPECT_EQ(error->param, "previous_response_id");
  EXPECT_NE(error->message.find("output[0].arguments"), std::string::npos) << error->message;
}

}  // namespace
}  // namespace causeway::server::stored_response_test
