#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "server/api/chat_body.h"
#include "server/api/generation_request.h"

namespace causeway::server::parse_test {
namespace {

MaybeError parse_chat_with(const std::string& more) {
  GenerationRequest out;
  return parse_generation(Endpoint::kChat,
                          R"({"model":"m","messages":[{"role":"user","content":"x"}])" +
                              (more.empty() ? "" : "," + more) + "}",
                          {}, out);
}
MaybeError parse_completion_with(const std::string& more) {
  GenerationRequest out;
  return parse_generation(Endpoint::kCompletions,
                          R"({"model":"m")" + (more.empty() ? "" : "," + more) + "}", {}, out);
}

struct Field {
  std::string json;
  std::string param;
};

TEST(Parse, RefusesBadFieldsByName) {
  const std::vector<Field> bad = {
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":"1")", "temperature"},
      {R"("temperature":"NaN")", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":1.01)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.5)", "top_k"},
      {R"("min_p":-1)", "min_p"},
      {R"("presence_penalty":2.5)", "presence_penalty"},
      {R"("frequency_penalty":-2.5)", "frequency_penalty"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":99999999999)", "max_tokens"},
      {R"("max_tokens":5,"max_completion_tokens":6)", "max_completion_tokens"},
      {R"("n":0)", "n"},
      {R"("n":1000)", "n"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":[])", "stream_options"},
      {R"("stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream_options":{"other":1})", "stream_options.other"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop"},
      {R"("stop":[1])", "stop"},
      {R"("stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])", "stop"},
      {R"("stop":")" + std::string(300, 'a') + "\"", "stop"},
      {R"("stop_token_ids":[-1])", "stop_token_ids"},
      {R"("stop_token_ids":5)", "stop_token_ids"},
      {R"("logprobs":5)", "logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("prompt_logprobs":21)", "prompt_logprobs"},
      {R"("include_reasoning":0)", "include_reasoning"},
      {R"("mm_processor_kwargs":{"a":1})", "mm_processor_kwargs"},
      {R"("best_of":2)", "best_of"},
      {R"("truncate_prompt_tokens":8)", "truncate_prompt_tokens"},
      {R"("echo":true)", "echo"},
      {R"("suffix":"x")", "suffix"},
      {R"("functions":[{}])", "functions"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":"text")", "response_format"},
      {R"("modalities":["audio"])", "modalities"},
      {R"("reasoning_effort":"high")", "reasoning_effort"},
      {R"("use_beam_search":true)", "use_beam_search"},
      {R"("chat_template":"{{x}}")", "chat_template"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("no_such_field":1)", "no_such_field"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("priority":"high")", "priority"}};
  for (const Field& field : bad) {
    const auto error = parse_chat_with(field.json);
    ASSERT_TRUE(error) << field.json;
    EXPECT_EQ(error->param, field.param) << error->message;
    EXPECT_EQ(error->status, 400);
    EXPECT_NE(error->message.find(field.param), std::string::npos) << error->message;
  }
}

TEST(Parse, RefusesBadTokenFieldsByName) {
  const std::vector<Field> bad = {
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":1.5)", "min_tokens"},
      {R"("return_token_ids":1)", "return_token_ids"},
      {R"("return_tokens_as_token_ids":1)", "return_tokens_as_token_ids"},
      {R"("bad_words":"x")", "bad_words"},
      {R"("bad_words":[5])", "bad_words"},
      {R"("bad_words":[""])", "bad_words"},
      {R"("bad_words":["  "])", "bad_words"},
      {R"("bad_words":[")" + std::string(257, 'x') + "\"]", "bad_words"},
      {R"("allowed_token_ids":5)", "allowed_token_ids"},
      {R"("allowed_token_ids":["5"])", "allowed_token_ids"},
      {R"("allowed_token_ids":[-5])", "allowed_token_ids"},
      {R"("allowed_token_ids":[])", "allowed_token_ids"},
      {R"("logit_bias":{"5":101})", "logit_bias"},
      {R"("logit_bias":{"5":-100.5})", "logit_bias"},
      {R"("logit_bias":{"5":"1"})", "logit_bias"},
      {R"("logit_bias":{"5":null})", "logit_bias"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"":1})", "logit_bias"},
      {R"("logit_bias":{"05":1})", "logit_bias"},
      {R"("logit_bias":{"-5":1})", "logit_bias"},
      {R"("logit_bias":{"4294967296":1})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"}};
  for (const Field& field : bad) {
    const auto error = parse_chat_with(field.json);
    ASSERT_TRUE(error) << field.json;
    EXPECT_EQ(error->param, field.param) << error->message;
  }
}

TEST(Parse, NamesTheFieldThatWasMeant) {
  const auto said = [](const std::string& more) {
    const auto error = parse_chat_with(more);
    return error ? error->param + ": " + error->message : "taken";
  };
  EXPECT_EQ(said(R"("max_token":5)"),
            "max_token: `max_token` is not supported by this server; did you mean `max_tokens`?");
  EXPECT_EQ(said(R"("stream_options":{"include_usgae":true})"),
            "stream_options.include_usgae: `stream_options.include_usgae` is not supported by this "
            "server; did you mean `include_usage`?");
  EXPECT_EQ(said(R"("cache_salt":"x")"),
            "cache_salt: `cache_salt` is not supported by this server; leave it out");
}

TEST(Parse, AnIntegerThatIsTooLargeIsToldTheRange) {
  for (const char* seed :
       {"18446744073709551616", "18446744073709551615", "-9223372036854775809"}) {
    const auto error = parse_chat_with(std::string("\"seed\":") + seed);
    ASSERT_TRUE(error) << seed;
    EXPECT_TRUE(error->message.ends_with("from -9223372036854775808 to 9223372036854775807"))
        << error->message;
  }
}

TEST(Parse, WhatIsNotJsonSaysWhere) {
  GenerationRequest out;
  for (const char* body : {R"({"model":"m")", "model=m", R"({"model":"m",})"}) {
    const auto error = parse_generation(Endpoint::kChat, body, {}, out);
    ASSERT_TRUE(error) << body;
    EXPECT_TRUE(error->message.starts_with("the body is not JSON: parse error at line 1, column "))
        << error->message;
  }
}

TEST(Parse, NumbersThatOnlyPythonTakesAreNamed) {
  for (const char* name : {"temperature", "top_p", "top_k", "min_p", "presence_penalty", "seed",
                           "max_tokens", "n", "top_logprobs", "stop", "stop_token_ids", "stream"}) {
    for (const std::string& number :
         {std::string("NaN"), std::string("-Infinity"), std::string("1e999"),
          std::string("18446744073709551616"), "1" + std::string(400, '0')}) {
      const auto error = parse_chat_with(std::string("\"") + name + "\":" + number);
      ASSERT_TRUE(error) << name << number;
      EXPECT_EQ(error->status, 400);
      EXPECT_EQ(error->param, name) << error->message;
    }
  }
  GenerationRequest out;
  ASSERT_FALSE(parse_generation(Endpoint::kChat,
                                R"({"model":"m","messages":[{"role":"user","content":"x"}],)"
                                R"("chat_template_kwargs":{"a":[NaN,-1e999]}})",
                                {}, out));
  EXPECT_TRUE(std::isnan(out.chat->template_kwargs["a"][0].get<double>()));
  EXPECT_EQ(out.chat->template_kwargs["a"][1].get<double>(), -INFINITY);
}

TEST(Parse, AcceptsWhatChangesNothing) {
  for (const char* more : {R"("tools":[])",
                           R"("tools":null)",
                           R"("tool_choice":"none")",
                           R"("tool_choice":"auto")",
                           R"("response_format":{"type":"text"})",
                           R"("logit_bias":{})",
                           R"("user":"u")",
                           R"("metadata":{"a":"b"})",
                           R"("store":true)",
                           R"("n":null)",
                           R"("min_tokens":0)",
                           R"("best_of":1)",
                           R"("truncate_prompt_tokens":-1)",
                           R"("echo":false)",
                           R"("bad_words":[])",
                           R"("prompt_logprobs":null)",
                           R"("prediction":{"type":"content","content":"x"})",
                           R"("include_reasoning":true)",
                           R"("suffix":"")",
                           R"("parallel_tool_calls":true)",
                           R"("modalities":["text"])",
                           R"("service_tier":"auto")",
                           R"("unknown":null)",
                           R"("stream_options":{"include_usage":true})",
                           R"("top_logprobs":0)",
                           R"("seed":-1)",
                           R"("max_tokens":5,"max_completion_tokens":5)",
                           R"("chat_template_kwargs":{"a":[1]})"}) {
    const auto error = parse_chat_with(more);
    EXPECT_FALSE(error) << more << ": " << error->message;
  }
}

TEST(Parse, EditsOfLogitsAreBounded) {
  const auto with = [](std::size_t count) {
    std::string bias, allowed;
    for (std::size_t i = 0; i < count; ++i) {
      bias += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":-1.5";
      allowed += (i > 0 ? "," : "") + std::to_string(i);
    }
    return std::pair("\"logit_bias\":{" + bias + "}", "\"allowed_token_ids\":[" + allowed + "]");
  };
  const auto [bias, allowed] = with(1024);
  GenerationRequest out;
  ASSERT_FALSE(parse_generation(Endpoint::kCompletions,
                                R"({"model":"m","prompt":"x",)" + bias + "," + allowed + "}", {},
                                out));
  ASSERT_EQ(out.logit_bias.size(), 1024u);
  EXPECT_EQ(out.logit_bias[7], (std::pair<std::int64_t, float>(7, -1.5f)));
  EXPECT_EQ(out.allowed_token_ids.size(), 1024u);
  const auto [more, most] = with(1025);
  EXPECT_EQ(parse_chat_with(most)->param, "allowed_token_ids");
  EXPECT_TRUE(parse_chat_with(more));
  EXPECT_FALSE(parse_chat_with(R"("logit_bias":{"5":1,"5":2})"));  // the last one counts
}

TEST(Parse, RefusesBadMessages) {
  const std::vector<Field> bad = {
      {"null", "messages"},
      {"[]", "messages"},
      {"{}", "messages"},
      {R"(["x"])", "messages[0]"},
      {R"([{"content":"x"}])", "messages[0].role"},
      {R"([{"role":"robot","content":"x"}])", "messages[0].role"},
      {R"([{"role":"tool","content":"x"}])", "messages[0].tool_call_id"},
      {R"([{"role":"tool","tool_call_id":"a"}])", "messages[0].content"},
      {R"([{"role":"user","content":"x","tool_calls":[{}]}])", "messages[0].tool_calls"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"user","content":[]}])", "messages[0].content"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content"},
      {R"([{"role":"user","content":"x"},{"role":"assistant","content":"y","tool_calls":[1]}])",
       "messages[1].tool_calls[0]"},
      {R"([{"role":"user","content":"x","weight":1}])", "messages[0].weight"}};
  for (const Field& field : bad) {
    GenerationRequest out;
    const auto error = parse_generation(Endpoint::kChat,
                                        R"({"model":"m","messages":)" + field.json + "}", {}, out);
    ASSERT_TRUE(error) << field.json;
    EXPECT_EQ(error->param, field.param) << error->message;
  }
}

TEST(Parse, RefusesBadPrompts) {
  for (const char* prompt : {"null", "[]", "5", "{}", "[\"a\",1]", "[1,\"a\"]", "[[]]", "[[1],[]]",
                             "[-1]", "[1.5]", "[4294967296]", "[[\"a\"]]", "[true]"}) {
    const auto error = parse_completion_with(std::string(R"("prompt":)") + prompt);
    ASSERT_TRUE(error) << prompt;
    EXPECT_EQ(error->param, "prompt") << prompt;
  }
  std::string many = "\"prompt\":[\"a\"";
  for (int i = 0; i < 100; ++i) many += ",\"a\"";
  EXPECT_FALSE(parse_completion_with(many + "]"));
  EXPECT_TRUE(parse_completion_with(many + "],\"n\":2"));
}

TEST(Parse, EchoIsOfCompletions) {
  GenerationRequest out;
  ASSERT_FALSE(parse_generation(
      Endpoint::kCompletions, R"({"model":"m","prompt":"x","echo":true,"max_tokens":0})", {}, out));
  EXPECT_TRUE(out.echo && out.echo_only());
  EXPECT_EQ(out.prompt_top(), -1);
  GenerationRequest scored;
  ASSERT_FALSE(parse_generation(Endpoint::kCompletions,
                                R"({"model":"m","prompt":"x","echo":true,"logprobs":2})", {},
                                scored));
  EXPECT_EQ(scored.prompt_top(), 2);
  EXPECT_EQ(parse_completion_with(R"("prompt":"x","echo":1)")->param, "echo");
  EXPECT_EQ(parse_completion_with(R"("prompt":"x","max_tokens":0)")->param, "max_tokens");
  EXPECT_EQ(parse_completion_with(R"("prompt":"x","max_tokens":-1,"echo":true)")->param,
            "max_tokens");
}

TEST(Parse, PromptLogprobsAreFewAndOfWholeAnswers) {
  GenerationRequest out;
  ASSERT_FALSE(parse_generation(Endpoint::kCompletions,
                                R"({"model":"m","prompt":"x","prompt_logprobs":20})", {}, out));
  EXPECT_EQ(out.prompt_top(), 20);
  for (const char* bad : {"-1", "21", "1.5", "true", "\"1\"", "99999999999999999999"}) {
    const auto error =
        parse_completion_with(R"("prompt":"x","prompt_logprobs":)" + std::string(bad));
    ASSERT_TRUE(error) << bad;
    EXPECT_EQ(error->param, "prompt_logprobs") << bad;
  }
  // vLLM refuses these, too, and passes over 0 without a word.
  for (const char* most : {"0", "1"}) {
    const auto error = parse_completion_with(R"("prompt":"x","stream":true,"prompt_logprobs":)" +
                                             std::string(most));
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->param, "prompt_logprobs");
    EXPECT_THAT(error->message, ::testing::HasSubstr("`echo`: true")) << "what streams them";
  }
}

TEST(Parse, RefusesWhatIsNotAnObject) {
  for (const char* body :
       {"", " ", "{", "[]", "5", "null", "{\"model\":}", "{\"model\":\"m\",}",
        "{\"model\":\"m\"} x", "{\"model\":NaN}", "{\"model\":\"m\",\"n\":1e999}", "{'model':1}",
        "{\"model\":\"\\ud800\"}"}) {
    GenerationRequest out;
    const auto error = parse_generation(Endpoint::kChat, body, {}, out);
    ASSERT_TRUE(error) << body;
    EXPECT_EQ(error->status, 400);
  }
  EXPECT_EQ(parse_completion_with(R"("model":"","prompt":"x")")->param, "model");
}

TEST(Parse, TemplateVariablesAreKept) {
  GenerationRequest out;
  ASSERT_FALSE(parse_generation(
      Endpoint::kChat,
      R"({"model":"m","messages":[{"role":"user","content":"x","name":"Ann"}],)"
      R"("chat_template_kwargs":{"enable_thinking":false},"add_generation_prompt":false})",
      {}, out));
  EXPECT_EQ(out.chat->template_kwargs["enable_thinking"], false);
  EXPECT_EQ(out.chat->messages[0]["name"], "Ann");
  EXPECT_FALSE(out.add_generation_prompt);
}

}  // namespace
}  // namespace causeway::server::parse_test
