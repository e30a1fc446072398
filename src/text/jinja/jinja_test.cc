// The language, feature by feature, against the answers of Python's jinja2; and hostile templates,
// each of which must end in an error that says what is wrong and where.
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/testing/rounds.h"
#include "text/chat_template.h"

namespace causeway::text::jinja_test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

Result<std::string> render(const std::string& source, const Json& variables,
                           JinjaLimits limits = {}) {
  CAUSEWAY_ASSIGN(const ChatTemplate compiled, ChatTemplate::compile(source, limits));
  const Json messages = variables.value("messages", Json::array());
  ChatTemplateInput input{.messages = messages};
  const Json none;
  const auto tools = variables.find("tools");
  input.tools = tools != variables.end() ? &*tools : &none;
  const auto extra = variables.find("extra");
  if (extra != variables.end()) input.extra = &*extra;
  const std::string bos = variables.value("bos_token", "");
  const std::string eos = variables.value("eos_token", "");
  input.bos_token = bos;
  input.eos_token = eos;
  input.now_unix_seconds = 1'763'640'000;
  return compiled.render(input);
}

Error error_of(const std::string& source, JinjaLimits limits = {}) {
  const auto result = render(source, Json::object(), limits);
  EXPECT_FALSE(result.ok()) << source.substr(0, 200);
  return result.ok() ? Error{} : result.error();
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

void expect_feature(const std::string& source, const Json& expected, const Json& variables) {
  const auto result = render(source, variables);
  if (expected.is_null()) {
    EXPECT_FALSE(result.ok()) << source << " gives " << *result;
    return;
  }
  ASSERT_TRUE(result.ok()) << source << ": " << result.error().message;
  EXPECT_EQ(*result, expected.get<std::string>()) << source;
}

// The file's form: tests/text/features.py.
TEST(Jinja, FeaturesAreWhatPythonGives) {
  std::ifstream file(CAUSEWAY_TEXT_TESTDATA "/features.json");
  const Json features = Json::parse(file);
  std::size_t compared = 0;
  for (const char* kind : {"expressions", "templates"}) {
    const bool braces = std::string_view(kind) == "expressions";
    for (const Json& feature : features.at(kind)) {
      if (feature.size() < 2) continue;  // the answer differs from run to run
      const auto source = feature[0].get<std::string>();
      expect_feature(braces ? "{{ " + source + " }}" : source, feature[1], features["variables"]);
      ++compared;
    }
  }
  EXPECT_GE(compared, 770u);
}

TEST(Jinja, ErrorsNameTheLine) {
  EXPECT_THAT(error_of("a\nb\n{% if %}").message, HasSubstr("line 3"));
  EXPECT_THAT(error_of("{#\n\n#}\n{{ x.y }}").message, HasSubstr("line 4: 'x' is undefined"));
  EXPECT_THAT(error_of("{% for m in [1] %}\n{{ m + 'a' }}{% endfor %}").message,
              HasSubstr("line 2: unsupported operand"));
  EXPECT_THAT(error_of("\n{{ 1 | nosuch }}").message,
              HasSubstr("line 2: No filter named 'nosuch'"));
  EXPECT_THAT(error_of("{% nosuch %}").message, HasSubstr("unknown tag 'nosuch'"));
  EXPECT_THAT(error_of("{% if x %}\n").message, HasSubstr("'endif'"));
  EXPECT_EQ(error_of("{% if x %}").code, ErrorCode::kInvalidArgument);
}

TEST(Jinja, TheTemplatesOwnExceptionIsItsMessageAlone) {
  const Error error = error_of("{{ raise_exception('roles must ' ~ 'alternate') }}");
  EXPECT_EQ(error.message, "roles must alternate");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
}

TEST(JinjaLimits, LoopsEnd) {
  const std::string nested =
      "{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}";
  JinjaLimits limits;
  limits.steps_max = rounds(limits.steps_max);
  const Error endless = error_of(nested, limits);
  EXPECT_THAT(endless.message, HasSubstr("steps"));
  EXPECT_EQ(endless.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(error_of("{{ range(10**12) }}").message, HasSubstr("Range too big"));
  EXPECT_THAT(error_of("{{ range(10**30) }}").message, HasSubstr("Range too big"));
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").message,
              HasSubstr("macros call each other"));
}

TEST(JinjaLimits, TwentyThousandParentheses) {
  for (const char* open : {"(", "[", "{1:", "-", "not ", "x(", "x[", "1 if "}) {
    const Error error = error_of("{{ " + repeated(open, 20'000) + "1");
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << open;
    EXPECT_THAT(error.message, HasSubstr("nested")) << open;
  }
  const Error balanced =
      error_of("{{ " + repeated("(", 20'000) + "1" + repeated(")", 20'000) + " }}");
  EXPECT_THAT(balanced.message, HasSubstr("nested deeper than 200"));
}

TEST(JinjaLimits, DeepBlocksAndLongChains) {
  for (const char* block : {"{% if 1 %}", "{% for x in [1] %}", "{% macro m() %}", "{% set x %}",
                            "{% filter upper %}", "{% with %}", "{% generation %}"}) {
    EXPECT_THAT(error_of(repeated(block, 20'000)).message, HasSubstr("nested")) << block;
  }
  for (const char* link : {" + 1", " ~ 1 + 1", "|abs", ".x", "[0]", "()", " is defined", " or 1"}) {
    EXPECT_FALSE(error_of("{{ x" + repeated(link, 20'000) + " }}").message.empty()) << link;
  }
  // Long, but what a real template may hold.
  const auto sum = render("{{ 0" + repeated(" + 1", 500) + " }}", Json::object());
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(*sum, "500");
  const auto elifs = render(
      "{% if 0 %}" + repeated("{% elif 0 %}", 5'000) + "{% else %}x{% endif %}", Json::object());
  ASSERT_TRUE(elifs.ok()) << elifs.error().message;
  EXPECT_EQ(*elifs, "x");
}

TEST(JinjaLimits, LargeResults) {
  JinjaLimits limits;
  limits.memory_bytes_max = rounds(limits.memory_bytes_max);
  EXPECT_THAT(error_of("{{ 'a' * 10**12 }}", limits).message, HasSubstr("bytes"));
  EXPECT_THAT(error_of("{{ [1] * 10**12 }}", limits).message, HasSubstr("bytes"));
  EXPECT_THAT(error_of("{{ 10 ** 10 ** 10 }}").message, HasSubstr("127 bits"));
  EXPECT_THAT(error_of("{{ ('a' * 10**8).replace('', 'b' * 10**6) }}", limits).message,
              HasSubstr("bytes"));
  EXPECT_THAT(error_of("{{ '%99999999999d' % 1 }}").message, HasSubstr("1000"));
  EXPECT_THAT(error_of("{% set ns = namespace(x='ab') %}{% for i in range(99) %}"
                       "{% set ns.x = ns.x + ns.x %}{% endfor %}",
                       limits)
                  .message,
              HasSubstr("bytes"));
  EXPECT_THAT(error_of("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}"
                       "{% set ns.x = ns.x + ns.x %}{% endfor %}",
                       limits)
                  .message,
              HasSubstr("bytes"));
  JinjaLimits small;
  small.output_bytes_max = 100;
  EXPECT_THAT(error_of("{% for i in range(99) %}abc{% endfor %}", small).message,
              HasSubstr("output is longer than 100 bytes"));
  small.source_bytes_max = 10;
  EXPECT_THAT(error_of("{# much too long #}", small).message, HasSubstr("longer than 10 bytes"));
}

TEST(JinjaLimits, WideLayouts) {
  JinjaLimits small;
  small.steps_max = rounds(2'000'000);
  small.memory_bytes_max = 32 << 20;
  for (const char* use :
       {"'a'.center(10**12)", "'a'.ljust(2**100, 'é')", "'a'.zfill(10**30)", "'a' | center(10**12)",
        "[1] | slice(10**12) | list", "('x' * 10**7) | urlencode", "{'a': '<' * 10**7} | xmlattr",
        "('é ' * 10**6) | wordwrap(1)", "('a-' * 10**6) | wordwrap(3)",
        "('-' * 10**7) | wordwrap(9)", "['ab ' * 10**6, 1] | pprint", "('<' * 10**7) | e",
        "('www.a.de ' * 10**6) | urlize", "('(' * 10**7) | urlize",
        "('&lt;' * 10**7) | striptags"}) {
    const Error error = error_of(std::string("{{ ") + use + " }}", small);
    EXPECT_THAT(error.message, ::testing::AnyOf(HasSubstr("bytes"), HasSubstr("steps"))) << use;
  }
  for (const char* use : {"'a'.center(-(2**126)) ", "'a' | truncate(2**126, leeway=2**126)",
                          "'a'.rjust(-(2**126), 'x')", "'a' | wordwrap(2**126)"}) {
    const auto result = render(std::string("{{ ") + use + " }}", Json::object());
    ASSERT_TRUE(result.ok()) << use << result.error().message;
    EXPECT_EQ(*result, "a") << use;
  }
  EXPECT_FALSE(error_of("{{ 'a' | truncate(-(2**126)) }}").message.empty());
}

// The work of a filter on a large value is counted, however small its result is, so that the steps
// end soon.
TEST(JinjaLimits, FiltersOverLargeValuesTakeSteps) {
  JinjaLimits small;
  small.steps_max = rounds(2'000'000);
  for (const char* use : {"text | center(10)",
                          "text | truncate(9)",
                          "text | urlencode",
                          "text | pprint",
                          "text | striptags",
                          "text | wordwrap",
                          "text | urlize",
                          "text | e",
                          "{'a': text} | xmlattr",
                          "{text.replace(' ', ''): 1} | xmlattr",
                          "{'a': text} | urlencode",
                          "zeros | filesizeformat",
                          "zeros | int",
                          "zeros | float",
                          "text.ljust(1)",
                          "text.zfill(1)",
                          "text.encode('ascii')",
                          "numbers | slice(3)",
                          "numbers | slice(-1)",
                          "numbers | pprint",
                          "numbers | batch(7)"}) {
    const double before = static_cast<double>(std::clock());
    const Error error = error_of(std::string("{% set text = 'ab ' * 10**6 %}"
                                             "{% set zeros = '0' * 10**6 %}"
                                             "{% set numbers = [1] * 10**5 %}"
                                             "{% for a in range(99999) %}{% for b in range(99) %}"
                                             "{% set x = ") +
                                     use + " %}{% endfor %}{% endfor %}",
                                 small);
    EXPECT_THAT(error.message, HasSubstr("steps")) << use;
    const double seconds = (static_cast<double>(std::clock()) - before) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 20) << use;
  }
}

TEST(JinjaLimits, FiltersCountWhatOneValueMakesOfAnother) {
  JinjaLimits small;
  small.steps_max = rounds(2'000'000);
  small.memory_bytes_max = 32 << 20;
  for (const char* use :
       {"('a ' ~ '\u00a0' * 10**5 ~ 'a') | wordwrap(1)",
        "('b ' * 10**4) | urlize(extra_schemes=['ab:'] * 10**4)",
        "'b' | urlize(extra_schemes=['a' * 10**6 ~ ':'] * 10**4)",
        "('www.a.de ' * 10**3) | urlize(target='x' * 10**6)", "'b' | urlize(rel='a ' * 10**6)",
        "('a ' * 10**4) | wordwrap(1, wrapstring='x' * 10**4)",
        "('a\n' * 10**4) | wordwrap(1, wrapstring='x' * 10**4)", "[1] | slice(10**7, 'x') | list",
        "([['x' * 10**6, 'y']] * 99) | urlencode"}) {
    const Error error = error_of(std::string("{{ ") + use + " }}", small);
    EXPECT_THAT(error.message, ::testing::AnyOf(HasSubstr("bytes"), HasSubstr("steps"))) << use;
  }
}

TEST(JinjaLimits, FiltersKeepToTheOutputsLength) {
  JinjaLimits small;
  small.output_bytes_max = 100;
  for (const char* use :
       {"'a' | center(200)", "('a b ' * 30) | truncate(110)", "['x' * 120, 1] | pprint",
        "('x y ' * 50) | wordwrap(9)", "('/?' * 40) | urlencode", "('www.a.de ' * 9) | urlize",
        "{'a': 'x' * 100} | xmlattr", "('<b>' ~ 'x' * 120) | striptags",
        "[1] | slice(50, 'x') | list", "'a'.zfill(200)", "'a'.ljust(200)",
        "('a' * 120).encode()"}) {
    EXPECT_THAT(error_of(std::string("{{ ") + use + " }}", small).message,
                HasSubstr("output is longer than 100 bytes"))
        << use;
  }
  const auto shorter = render("{{ 'a' | center(100) }}", Json::object(), small);
  ASSERT_TRUE(shorter.ok()) << shorter.error().message;
  EXPECT_EQ(shorter->size(), 100u);
}

TEST(JinjaLimits, DeepValues) {
  const std::string build =
      "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}";
  for (const char* use :
       {"{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == [ns.x] }}", "{{ ns.x | pprint }}",
        "{{ [ns.x, [ns.x]] | sort }}", "{{ ns.x | center }}", "{{ ns.x | striptags }}",
        "{{ ns.x | urlize }}", "{{ {'a': ns.x} | xmlattr }}", "{{ {'a': ns.x} | urlencode }}",
        "{{ ns.x | slice(1) | list }}", "{{ ns.x | truncate }}"}) {
    EXPECT_THAT(error_of(build + use).message, HasSubstr("nested deeper")) << use;
  }
  EXPECT_THAT(error_of("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}").message,
              HasSubstr("nested deeper"));
  Json deep = Json::array();
  for (int i = 0; i < 5000; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  const auto result = render("{{ messages }}", Json{{"messages", deep}});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("nested deeper than 200"));
}

TEST(Jinja, NotUtf8) {
  EXPECT_THAT(error_of("abc \xff").message, HasSubstr("not valid UTF-8 at byte 4"));
}

}  // namespace
}  // namespace causeway::text::jinja_test
