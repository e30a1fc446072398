// Fields that say which form an answer must have: OpenAI's `response_format` (`text.format` of
// /v1/responses), vLLM's `structured_outputs`, and what that was before (`guided_json` and others).
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

using request::ConstraintKind;
using request::ConstraintText;

// Takes the form that is asked for together with the field that asks; a second form is an error.
class FormField {
 public:
  FormField(Fields& fields, GenerationRequest& out) : fields_(fields), out_(out) {}

  void set(std::string_view field, ConstraintKind kind, std::string text) {
    if (out_.constraint) {
      return fields_.fail(field, "cannot be given together with `" + out_.constraint_field +
                                     "`: an answer has one form");
    }
    out_.constraint = ConstraintText{kind, std::move(text)};
    out_.constraint_field = fields_.prefix() + std::string(field);
  }

 private:
  Fields& fields_;
  GenerationRequest& out_;
};

// A schema is an object, or a string that holds its JSON.
void set_schema(Fields& fields, std::string_view name, const Json& schema, FormField form) {
  if (schema.is_string()) {
    return form.set(name, ConstraintKind::kJsonSchema, schema.get<std::string>());
  }
  if (!schema.is_object()) return fields.fail(name, "must be a JSON schema");
  form.set(name, ConstraintKind::kJsonSchema, json_text(schema));
}

// Appends `text` as a quoted literal of a grammar.
void append_literal(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void set_choice(Fields& fields, std::string_view name, const Json& choices, const ApiLimits& limits,
                FormField form) {
  const auto fail = [&] {
    fields.fail(name, "must be a list of 1 to " + std::to_string(limits.form_choices_max) +
                          " strings that are not empty");
  };
  if (!choices.is_array() || choices.empty() || choices.size() > limits.form_choices_max) {
    return fail();
  }
  std::string grammar = "root ::= ";
  for (const Json& choice : choices) {
    const auto* text = choice.get_ptr<const std::string*>();
    if (text == nullptr || text->empty()) return fail();
    if (grammar.back() == '"') grammar += " | ";
    append_literal(grammar, *text);
  }
  grammar += '\n';
  form.set(name, ConstraintKind::kGrammar, std::move(grammar));
}

// The kinds that vLLM's fields have, and their names, which Fields keeps by reference.
struct KindNames {
  std::string_view json, regex, grammar, choice;
};
constexpr KindNames kNames = {"json", "regex", "grammar", "choice"};
constexpr KindNames kGuidedNames = {"guided_json", "guided_regex", "guided_grammar",
                                    "guided_choice"};

void parse_kinds(Fields& fields, const KindNames& names, const ApiLimits& limits,
                 GenerationRequest& out) {
  FormField form(fields, out);
  if (const Json* schema = fields.value(names.json)) set_schema(fields, names.json, *schema, form);
  if (auto text = fields.string(names.regex)) {
    form.set(names.regex, ConstraintKind::kRegex, *std::move(text));
  }
  if (auto text = fields.string(names.grammar)) {
    form.set(names.grammar, ConstraintKind::kGrammar, *std::move(text));
  }
  if (const Json* choices = fields.value(names.choice)) {
    set_choice(fields, names.choice, *choices, limits, form);
  }
}

// The member `schema` of an object that also names and describes it; nullptr: there is none.
const Json* described_schema(Fields& fields) {
  (void)fields.string("name");
  (void)fields.string("description");
  (void)fields.boolean("strict");  // enforced either way
  return fields.object("schema");
}

void parse_json_schema(Fields& format, GenerationRequest& out) {
  const Json* described = format.object("json_schema");
  if (described == nullptr) {
    if (!format.failed()) format.fail("json_schema", "must be an object with a schema");
    return;
  }
  Fields inner(*described, format.prefix() + "json_schema.");
  const Json* schema = described_schema(inner);
  inner.reject_rest();
  if (inner.failed()) return format.fail(*inner.error());
  if (schema == nullptr)
    return FormField(format, out).set("json_schema", ConstraintKind::kJson, "");
  set_schema(format, "json_schema", *schema, FormField(format, out));
}

void parse_response_format(Fields& fields, GenerationRequest& out) {
  const Json* value = fields.object("response_format");
  if (value == nullptr) return;
  Fields format(*value, "response_format.");
  const auto type = format.string("type");
  if (type == "json_object") {
    FormField(fields, out).set("response_format", ConstraintKind::kJson, "");
  } else if (type == "json_schema") {
    parse_json_schema(format, out);
  } else if (type != "text") {
    format.fail("type", R"(must be "text", "json_object" or "json_schema")");
  }
  format.reject_rest();
  if (format.failed()) fields.fail(*format.error());
}

// The form as /v1/responses has it, where the schema lies beside its type.
void parse_text_format(Fields& text, const Json& value, GenerationRequest& out) {
  Fields format(value, text.prefix() + "format.");
  const auto type = format.string("type");
  if (type == "json_object") {
    FormField(text, out).set("format", ConstraintKind::kJson, "");
  } else if (type == "json_schema") {
    const Json* schema = described_schema(format);
    if (schema != nullptr) set_schema(format, "schema", *schema, FormField(format, out));
    if (schema == nullptr && !format.failed()) format.fail("schema", "must be a JSON schema");
  } else if (type != "text") {
    format.fail("type", R"(must be "text", "json_object" or "json_schema")");
  }
  format.reject_rest();
  if (format.failed()) text.fail(*format.error());
}

void parse_text_options(Fields& fields, GenerationRequest& out) {
  const Json* value = fields.object("text");
  if (value == nullptr) return;
  Fields text(*value, "text.");
  if (const Json* format = text.object("format")) parse_text_format(text, *format, out);
  if (text.string("verbosity").value_or("medium") != "medium") {
    text.fail("verbosity", "is not supported by this server except \"medium\"; leave it out");
  }
  text.reject_rest();
  if (text.failed()) fields.fail(*text.error());
}

void parse_structured_outputs(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  const Json* value = fields.object("structured_outputs");
  if (value == nullptr) return;
  Fields inner(*value, "structured_outputs.");
  const bool before = out.constraint.has_value();
  parse_kinds(inner, kNames, limits, out);
  if (inner.boolean("json_object").value_or(false)) {
    FormField(inner, out).set("json_object", ConstraintKind::kJson, "");
  }
  inner.reject_rest();
  if (inner.failed()) return fields.fail(*inner.error());
  if (!out.constraint && !before) {
    fields.fail("structured_outputs",
                "must have one of `json`, `regex`, `choice`, `grammar` and `json_object`");
  }
}

// Refuses fields that could forbid the only tokens that the form allows, or the end of the answer.
void check_company(Fields& fields, const GenerationRequest& out) {
  const std::string why = out.fences_calls()
                              ? "strict `tools`, whose calls have a form"
                              : "`" + out.constraint_field +
                                    "`, which says what the answer is made of and where it ends";
  const std::array<std::pair<std::string_view, bool>, 4> others = {
      {{"ignore_eos", out.ignore_eos},
       {"min_tokens", out.min_tokens > 0},
       {"allowed_token_ids", !out.allowed_token_ids.empty()},
       {"bad_words", !out.bad_words.empty()}}};
  for (const auto& [name, given] : others) {
    if (given) {
      fields.fail(name, "cannot be given together with " + why);
    }
  }
}

}  // namespace

void parse_structured(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  if (out.endpoint == Endpoint::kResponses) {
    parse_text_options(fields, out);
  } else {
    parse_response_format(fields, out);
  }
  parse_structured_outputs(fields, limits, out);
  parse_kinds(fields, kGuidedNames, limits, out);
  if (out.constraint && out.calls_tools) {
    const bool forced = out.forces_call;
    fields.fail(forced ? "tool_choice" : "tools",
                "cannot be given together with `" + out.constraint_field +
                    "`: calls of tools have a form of their own (`tool_choice`: \"none\" lets the "
                    "answer have this one)");
  }
  const bool fences = out.fences_calls();
  if (out.forces_call || fences) out.constraint_field = fences ? "tools" : "tool_choice";
  if (out.constraint || out.forces_call || fences) check_company(fields, out);
}

}  // namespace causeway::server
