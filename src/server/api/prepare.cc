#include "server/api/prepare.h"

#include <algorithm>

#include "grammar/behind_thinking.h"
#include "grammar/check_constraint.h"
#include "server/api/bad_words.h"
#include "server/api/call_forms.h"
#include "server/api/chat_body.h"
#include "text/detokenizer.h"

namespace causeway::server {

MaybeError check_token(std::string_view field, std::int64_t id,
                       const fleet::CatalogueEntry& model) {
  if (id >= 0 && id < model.vocab) return {};
  return bad_request("`" + std::string(field) + "` has token id " + std::to_string(id) +
                         "; the model has " + std::to_string(model.vocab) + " tokens",
                     std::string(field));
}

namespace {

constexpr std::int64_t kCompletionTokensDefault = 16;

// A text of fewer bytes for each token of the context is encoded in whole: so is what people write,
// a little too long as it may be, and then the error says how long it is.
constexpr std::int64_t kBytesOfTokenMax = 8;

// The longest prompt that the model takes.
std::int64_t prompt_tokens_max(const fleet::CatalogueEntry& model) {
  const std::int64_t room = std::max<std::int64_t>(0, model.max_model_len.count - 1);
  return model.max_prompt > Tokens(0) ? std::min(room, model.max_prompt.count) : room;
}

MaybeError encode(const PromptOf& prompt, std::string_view text, bool add_special,
                  EncodedPrompt& out) {
  text::EncodeOptions options;
  options.add_special_tokens = add_special;
  const std::int64_t most = prompt_tokens_max(prompt.model);
  const bool whole = prompt.whole || std::ssize(text) / kBytesOfTokenMax <= most;
  auto tokens =
      prompt.model.tokenizer->encode_up_to(text, options, whole ? text::kAllTokens : most);
  if (!tokens.ok()) {
    return bad_request("the prompt: " + tokens.error().message,
                       std::string(prompt.asked.prompt_field()));
  }
  out.tokens = std::move(tokens->ids);
  out.count = tokens->count;
  return {};
}

// A call in a form without quotes cannot name every tool.
MaybeError check_names(const GenerationRequest& asked, const fleet::CatalogueEntry& model) {
  for (const auto& tool : asked.chat->tools) {
    const auto& name = tool["function"]["name"].get_ref<const std::string&>();
    if (text::can_name_tool(model.tool_calls, name)) continue;
    return bad_request("`tools`: a call of `" + model.name + "` cannot name `" + name +
                           "`; leave blanks, control characters and `[` out of the name",
                       "tools");
  }
  return {};
}

// A request with tools is refused when the template would not show them to the model, or when the
// form of the model's calls is not known.
MaybeError check_tools(const GenerationRequest& asked, const text::ChatTemplate& chat_template,
                       const fleet::CatalogueEntry& model) {
  if (!asked.calls_tools) return {};
  if (!chat_template.takes_tools()) {
    const std::string which =
        asked.chat->chat_template ? "`chat_template`" : "the chat template of `" + model.name + "`";
    return bad_request(which +
                           " takes no tools; leave `tools` out, or give the server a template that "
                           "takes them",
                       "tools");
  }
  if (model.tool_calls != text::ToolCallFormat::kNone) return check_names(asked, model);
  return bad_request("how `" + model.name +
                         "` writes calls of tools is not known; leave `tools` out, or tell the "
                         "server, when it starts, how the model writes them",
                     "tools");
}

ApiError no_template(const GenerationRequest& asked, const fleet::CatalogueEntry& model) {
  const std::string why = model.chat_template_error.empty() ? "" : ": " + model.chat_template_error;
  return bad_request("the model `" + model.name + "` has no chat template" + why +
                         "; use /v1/completions, or give the server a template for chats",
                     std::string(asked.prompt_field()));
}

// The chat template of the request if it brings one, else the model's.
struct UsedTemplate {
  std::optional<text::ChatTemplate> own;
  const text::ChatTemplate* used = nullptr;
};

MaybeError find_template(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                         UsedTemplate& out) {
  if (!asked.chat->chat_template) {
    if (!model.chat_template) return no_template(asked, model);
    out.used = &*model.chat_template;
  } else {
    auto own = text::ChatTemplate::compile(*asked.chat->chat_template);
    if (!own.ok()) return bad_request("`chat_template`: " + own.error().message, "chat_template");
    out.used = &out.own.emplace(std::move(own).value());
  }
  return check_tools(asked, *out.used, model);
}

// The conversation with each `developer` as `system`, which is the older name of the same: no model
// of the families that are served was trained on it, and many templates leave out, without a word,
// what they do not know. Empty: there is none.
std::optional<nlohmann::ordered_json> without_developers(const nlohmann::ordered_json& messages) {
  const auto is_developer = [](const auto& message) { return message["role"] == "developer"; };
  if (std::none_of(messages.begin(), messages.end(), is_developer)) return {};
  nlohmann::ordered_json out = messages;
  for (auto& message : out) {
    if (is_developer(message)) message["role"] = "system";
  }
  return out;
}

MaybeError render(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                  std::int64_t now_unix_seconds, std::string& out) {
  UsedTemplate chat_template;
  if (auto error = find_template(asked, model, chat_template)) return error;
  const auto renamed = without_developers(asked.chat->messages);
  text::ChatTemplateInput input{.messages = renamed ? *renamed : asked.chat->messages};
  if (asked.calls_tools) input.tools = &asked.chat->tools;
  input.extra = &asked.chat->template_kwargs;
  input.add_generation_prompt = asked.add_generation_prompt;
  input.bos_token = model.bos_text;
  input.eos_token = model.eos_text;
  input.now_unix_seconds = now_unix_seconds;
  auto text = chat_template.used->render(input);
  if (!text.ok()) {
    const bool own = chat_template.own.has_value();
    return bad_request((own ? "`chat_template`" : "the chat template of `" + model.name + "`") +
                           ": " + text.error().message,
                       own ? "chat_template" : std::string(asked.prompt_field()));
  }
  if (asked.continue_final_message) {
    const auto& content = asked.chat->messages.back()["content"].get_ref<const std::string&>();
    text = text::cut_behind_final_message(std::move(text).value(), content);
    if (!text.ok()) return bad_request(text.error().message, "continue_final_message");
  }
  out = std::move(text).value();
  return {};
}

bool begins_reasoning(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                      std::string_view prompt) {
  if (!asked.continue_final_message) return text::begins_reasoning(model.reasoning, prompt);
  const auto& content = asked.chat->messages.back()["content"].get_ref<const std::string&>();
  return text::continues_reasoning(model.reasoning, content);
}

// Whether the answer may begin with thinking: the prompt does not end with the mark that closes it.
bool may_reason(const fleet::CatalogueEntry& model, std::string_view prompt) {
  const auto [open, close] = text::reasoning_marks(model.reasoning);
  const std::size_t last = prompt.find_last_not_of(" \t\n\r");
  prompt = prompt.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return !close.empty() && !prompt.ends_with(close);
}

MaybeError chat_prompt(const PromptOf& prompt, EncodedPrompt& out) {
  const GenerationRequest& asked = prompt.asked;
  std::string text;
  if (auto error = render(asked, prompt.model, prompt.now_unix_seconds, text)) return error;
  out.begins_reasoning = begins_reasoning(asked, prompt.model, text);
  out.may_reason =
      out.begins_reasoning || (!asked.continue_final_message && may_reason(prompt.model, text));
  // The template writes BOS itself.
  return encode(prompt, text, asked.add_special_tokens.value_or(false), out);
}

MaybeError completion_prompt(const PromptOf& prompt, EncodedPrompt& out) {
  const GenerationRequest& asked = prompt.asked;
  const Prompt& given = asked.prompts[prompt.index];
  if (const auto* text = std::get_if<std::string>(&given)) {
    return encode(prompt, *text, asked.add_special_tokens.value_or(true), out);
  }
  out.tokens = std::get<std::vector<TokenId>>(given);
  out.count = std::ssize(out.tokens);
  for (const TokenId id : out.tokens) {
    if (auto error = check_token(asked.prompt_field(), id, prompt.model)) return error;
  }
  return {};
}

// Sets max_tokens, or says why prompt and answer do not fit. `prompt`: tokens of the prompt.
MaybeError fit(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
               std::int64_t prompt, request::Request& request) {
  const std::string field(asked.prompt_field());
  const bool in_part = prompt > std::ssize(request.prompt);
  const std::string told = (in_part ? "at least " : "") + std::to_string(prompt);
  if (prompt == 0) return bad_request("the prompt has no tokens", field);
  if (model.max_prompt > Tokens(0) && prompt > model.max_prompt.count) {
    return bad_request("the model takes prompts of at most " +
                           std::to_string(model.max_prompt.count) +
                           " tokens, which is the context it was trained on; this one has " + told,
                       field, "context_length_exceeded");
  }
  const std::int64_t room = model.max_model_len.count - prompt;
  const std::int64_t fallback = asked.chats()
                                    ? std::max<std::int64_t>(room, 1)
                                    : std::clamp<std::int64_t>(room, 1, kCompletionTokensDefault);
  // The engine generates at least one token, also where the answer tells none (max_tokens 0).
  const std::int64_t tokens = std::max<std::int64_t>(1, asked.max_tokens.value_or(fallback));
  if (tokens > room) {
    return bad_request("this model's maximum context length is " +
                           std::to_string(model.max_model_len.count) + " tokens; asked for are " +
                           told + " of the prompt and " + std::to_string(tokens) +
                           " of the answer; shorten " + (room > 0 ? "one of them" : "the prompt"),
                       field, "context_length_exceeded");
  }
  if (asked.min_tokens > tokens) {
    return bad_request("`min_tokens` is " + std::to_string(asked.min_tokens) +
                           "; the answer has at most " + std::to_string(tokens) + " tokens",
                       "min_tokens");
  }
  request.max_tokens = Tokens(tokens);
  request.min_tokens = Tokens(asked.min_tokens);
  return {};
}

MaybeError set_stops(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                     request::Request& request) {
  if (!asked.ignore_eos) request.stop_tokens = model.eos;
  for (const std::int64_t id : asked.stop_token_ids) {
    if (auto error = check_token("stop_token_ids", id, model)) return error;
    request.stop_tokens.push_back(static_cast<TokenId>(id));
  }
  return {};
}

// A prompt as text: as it was sent, or decoded where tokens were sent.
std::string text_of(const Prompt& prompt, const fleet::CatalogueEntry& model) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  text::Detokenizer detokenizer(*model.tokenizer);
  std::string out;
  for (const TokenId id : std::get<std::vector<TokenId>>(prompt)) {
    out += detokenizer.push(id, /*skip_special=*/false);
  }
  return out + detokenizer.finish();
}

// After the prompts were found to fit the context, which bounds each of them.
MaybeError set_echoes(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                      std::size_t bytes_max, Prepared& out) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; asked.echo && i < asked.prompts.size(); ++i) {
    out.echoes.push_back(text_of(asked.prompts[i], model));
    bytes += out.echoes.back().size() * static_cast<std::size_t>(asked.n);
    if (bytes > bytes_max) {
      return bad_request("`echo` would tell prompts of more than " + std::to_string(bytes_max) +
                             " bytes, those of all choices together",
                         "echo");
    }
  }
  return {};
}

// After the prompts were found to fit the context.
MaybeError check_prompt_logprobs(const GenerationRequest& asked, std::int64_t most,
                                 const Prepared& prepared) {
  if (asked.prompt_top() < 0) return {};
  std::int64_t told = 0;
  for (const request::Request& request : prepared.requests) {
    told += std::ssize(request.prompt) * (1 + request.sampling.prompt_logprobs);
  }
  if (told <= most) return {};
  const std::string field = asked.prompt_logprobs >= 0 ? "prompt_logprobs" : "logprobs";
  return bad_request("`" + field + "` would tell " + std::to_string(told) +
                         " log-probabilities of prompts, those of all choices together; at most " +
                         std::to_string(most) + " are told",
                     field);
}

MaybeError check_embeddings(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                            std::int64_t most) {
  if (asked.pooling == request::Pooling::kNone) return {};
  const std::int64_t dimensions = asked.dimensions.value_or(model.hidden);
  if (dimensions > model.hidden) {
    return bad_request(
        "`dimensions` must be from 1 to " + std::to_string(model.hidden) + " for this model",
        "dimensions");
  }
  const std::int64_t inputs = std::ssize(asked.prompts);
  if (inputs * dimensions <= most) return {};
  return bad_request("`input` would tell " + std::to_string(inputs) + " embeddings of " +
                         std::to_string(dimensions) + " numbers; at most " + std::to_string(most) +
                         " numbers are told",
                     "input");
}

// After set_stops(): min_tokens excludes the tokens that end the answer, so that some other token
// must be allowed.
MaybeError set_edits(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                     request::Request& request) {
  for (const auto& [id, bias] : asked.logit_bias) {
    if (auto error = check_token("logit_bias", id, model)) return error;
    request.logit_bias.push_back({static_cast<TokenId>(id), bias});
  }
  if (auto error = set_bad_words(asked, model, request)) return error;
  bool goes_on = asked.allowed_token_ids.empty() || asked.min_tokens == 0;
  for (const std::int64_t id : asked.allowed_token_ids) {
    if (auto error = check_token("allowed_token_ids", id, model)) return error;
    const auto& stops = request.stop_tokens;
    goes_on = goes_on || std::find(stops.begin(), stops.end(), id) == stops.end();
    request.allowed_tokens.push_back(static_cast<TokenId>(id));
  }
  if (goes_on) return {};
  return bad_request("`min_tokens` asks for tokens, but all `allowed_token_ids` end the answer",
                     "min_tokens");
}

void set_sampling(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                  request::SamplingParams& out) {
  const fleet::GenerationDefaults& defaults = model.defaults;
  const auto first = [](const auto& given, const auto& other, auto fallback) {
    return given ? *given : other.value_or(fallback);
  };
  out.temperature = first(asked.temperature, defaults.temperature, out.temperature);
  out.top_p = first(asked.top_p, defaults.top_p, out.top_p);
  out.top_k = first(asked.top_k, defaults.top_k, out.top_k);
  out.min_p = first(asked.min_p, defaults.min_p, out.min_p);
  out.repetition_penalty =
      first(asked.repetition_penalty, defaults.repetition_penalty, out.repetition_penalty);
  out.presence_penalty = asked.presence_penalty;
  out.frequency_penalty = asked.frequency_penalty;
  out.top_logprobs = asked.top_logprobs;
  out.prompt_logprobs = asked.prompt_top();
}

// Checks the schemas of tools that a grammar will keep to.
MaybeError check_schemas(const GenerationRequest& asked) {
  const auto& tools = asked.chat->tools;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const auto& function = tools[i]["function"];
    const auto parameters = function.find("parameters");
    if (parameters == function.end() || !parameters->is_object()) continue;
    if (!asked.forces_call && !asked.strict_tools[i]) continue;
    const Status fits =
        grammar::check_constraint({request::ConstraintKind::kJsonSchema, parameters->dump()});
    if (fits.ok()) continue;
    const bool flat = asked.endpoint == Endpoint::kResponses;
    const std::string field =
        "tools[" + std::to_string(i) + (flat ? "].parameters" : "].function.parameters");
    return bad_request("`" + field + "`: " + fits.error().message, field);
  }
  return {};
}

// What the model thinks is passed over where the answer's text is parted from it.
request::ConstraintText fence(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                              bool begins_reasoning) {
  grammar::CallsInText calls = fenced_calls(model.tool_calls, asked.chat->tools, asked.strict_tools,
                                            !asked.parallel_tool_calls);
  const auto [open, close] = text::reasoning_marks(model.reasoning);
  if (!open.empty()) {
    calls.marks.think_open = open;
    calls.marks.think_close = close;
    calls.marks.thinks = begins_reasoning;
    calls.think_open = model.tokenizer->find(open).value_or(-1);
    calls.think_close = model.tokenizer->find(close).value_or(-1);
  }
  return grammar::to_constraint(calls);
}

// After encode_prompt(), which has checked that the form of the model's calls is known.
MaybeError form_calls(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                      Prepared& out) {
  if (auto error = check_schemas(asked)) return error;
  out.constraint = asked.forces_call ? forced_calls(model.tool_calls, asked.chat->tools,
                                                    asked.forced_tool, !asked.parallel_tool_calls)
                                     : fence(asked, model, out.begins_reasoning);
  return {};
}

// The form of an answer before which the model may think, freely: the text of that is parted from
// the answer's.
request::ConstraintText behind_thinking(request::ConstraintText form,
                                        const fleet::CatalogueEntry& model, bool thinks) {
  const auto [open, close] = text::reasoning_marks(model.reasoning);
  return grammar::to_constraint(
      grammar::BehindThinking{.form = std::move(form),
                              .open = std::string(open),
                              .close = std::string(close),
                              .open_token = model.tokenizer->find(open).value_or(-1),
                              .close_token = model.tokenizer->find(close).value_or(-1),
                              .thinks = thinks});
}

// The choices of one prompt; they differ in their seeds.
void add_choices(const GenerationRequest& asked, std::uint64_t seed, request::Request request,
                 Prepared& out) {
  const auto first = static_cast<std::uint64_t>(out.requests.size());
  out.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
  for (std::int32_t i = 0; i < asked.n; ++i) {
    request.sampling.seed = seed + first + static_cast<std::uint64_t>(i);
    out.requests.push_back(request);
    // A chat has one prompt, whose log-probabilities its first choice brings.
    if (asked.chats()) request.sampling.prompt_logprobs = -1;
  }
}

}  // namespace

MaybeError encode_prompt(const PromptOf& prompt, EncodedPrompt& out) {
  return prompt.asked.chats() ? chat_prompt(prompt, out) : completion_prompt(prompt, out);
}

MaybeError prepare(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                   const PrepareContext& context, Prepared& out) {
  out.model = &model;
  out.constraint = asked.constraint;
  request::Request common;
  common.model = model.id;
  common.slo = context.slo.over(model.slo);
  common.priority = asked.priority;
  common.pooling = asked.pooling;
  if (auto error = check_embeddings(asked, model, context.embedded_numbers_max)) return error;
  set_sampling(asked, model, common.sampling);
  if (auto error = set_stops(asked, model, common)) return error;
  if (auto error = set_edits(asked, model, common)) return error;
  const std::uint64_t seed = asked.seed ? static_cast<std::uint64_t>(*asked.seed) : context.seed;
  const std::size_t prompts = asked.chats() ? 1 : asked.prompts.size();
  bool thinks_first = false;
  for (std::size_t i = 0; i < prompts; ++i) {
    request::Request request = common;
    EncodedPrompt prompt;
    auto error = encode_prompt(
        {.asked = asked, .model = model, .index = i, .now_unix_seconds = context.now_unix_seconds},
        prompt);
    request.prompt = std::move(prompt.tokens);
    out.begins_reasoning = prompt.begins_reasoning;
    thinks_first = prompt.may_reason;
    const bool forms = asked.forces_call || asked.fences_calls();
    if (!error && forms) error = form_calls(asked, model, out);
    if (!error) error = fit(asked, model, prompt.count, request);
    if (error) return error;
    add_choices(asked, seed, std::move(request), out);
  }
  if (out.constraint && thinks_first && !asked.fences_calls()) {
    out.constraint = behind_thinking(*std::move(out.constraint), model, out.begins_reasoning);
  }
  if (auto error = check_prompt_logprobs(asked, context.prompt_logprobs_max, out)) return error;
  return set_echoes(asked, model, context.echo_bytes_max, out);
}

}  // namespace causeway::server
