#include "server/api/route.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/hex_digit.h"
#include "base/nearest_word.h"
#include "server/api/json_write.h"
#include "text/utf8.h"

namespace causeway::server {
namespace {

enum class At { kPublic, kAdmin, kBoth };

struct Known {
  std::string_view path;
  Route route;
  At at;
};
constexpr std::array<Known, 27> kKnown = {
    {{"/v1/chat/completions", Route::kChatCompletions, At::kPublic},
     {"/v1/completions", Route::kCompletions, At::kPublic},
     {"/v1/responses", Route::kResponses, At::kPublic},
     {"/v1/embeddings", Route::kEmbeddings, At::kPublic},
     {"/tokenize", Route::kTokenize, At::kPublic},
     {"/detokenize", Route::kDetokenize, At::kPublic},
     {"/v1/models", Route::kModels, At::kPublic},
     {"/admin/models", Route::kAdminModels, At::kAdmin},
     {"/admin/models/load", Route::kAdminLoad, At::kAdmin},
     {"/admin/models/unload", Route::kAdminUnload, At::kAdmin},
     {"/admin/models/pin", Route::kAdminPin, At::kAdmin},
     {"/admin/models/unpin", Route::kAdminUnpin, At::kAdmin},
     {"/admin/drain", Route::kAdminDrain, At::kAdmin},
     {"/admin/reload", Route::kAdminReload, At::kAdmin},
     {"/admin/chat/completions", Route::kAdminChat, At::kAdmin},
     {"/", Route::kPage, At::kAdmin},
     {"/sleep", Route::kSleep, At::kAdmin},
     {"/wake_up", Route::kWakeUp, At::kAdmin},
     {"/is_sleeping", Route::kIsSleeping, At::kAdmin},
     {"/models", Route::kRouterModels, At::kAdmin},
     {"/models/sse", Route::kRouterEvents, At::kAdmin},
     {"/models/load", Route::kRouterLoad, At::kAdmin},
     {"/models/unload", Route::kRouterUnload, At::kAdmin},
     {"/health", Route::kHealth, At::kBoth},
     {"/ping", Route::kPing, At::kBoth},
     {"/version", Route::kVersion, At::kBoth},
     {"/metrics", Route::kMetrics, At::kBoth}}};
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kResponsePrefix = "/v1/responses/";

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (at + 2 >= text.size()) return {};
    const int high = hex_digit(text[at + 1]), low = hex_digit(text[at + 2]);
    if (high < 0 || low < 0) return {};
    out += static_cast<char>(high * 16 + low);
    at += 2;
  }
  if (text::first_invalid_utf8(out)) return {};
  return out;
}

// What stands in the path behind `prefix`, percent-decoded; nullopt: nothing, or not the prefix.
std::optional<std::string> named_behind(std::string_view prefix, std::string_view path) {
  if (!path.starts_with(prefix) || path.size() == prefix.size()) return {};
  return percent_decoded(path.substr(prefix.size()));
}

bool serves(Door door, At at) {
  return at == At::kBoth || (at == At::kAdmin) == (door == Door::kAdmin);
}

std::string_view path_of(std::string_view target) {
  // A proxy may send the absolute form.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t slash = target.find('/');
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target.substr(0, target.find_first_of("?#"));
}

// Why a path that other servers of this API have is not here; empty for all others.
std::string_view why_left_out(std::string_view path) {
  if (path == "/v1/score" || path == "/score") {
    return "; scores of pairs of texts are not supported: compare their /v1/embeddings";
  }
  if (path.starts_with(kResponsePrefix)) {
    return "; what is kept of an answer is the answer: there are none in the background to be "
           "cancelled, and their input is not listed";
  }
  return {};
}

bool is_at(Door door, std::string_view path) {
  return std::any_of(kKnown.begin(), kKnown.end(), [&](const Known& entry) {
    return entry.path == path && serves(door, entry.at);
  });
}

// The path that was probably meant; empty: none is near.
std::string path_meant(Door door, std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::string beside_version = "/v1" + std::string(path.substr(0, 64));
  for (const std::string_view one : {path, std::string_view(beside_version)}) {
    if (is_at(door, one)) return std::string(one);
  }
  std::vector<std::string_view> paths;
  for (const Known& entry : kKnown) {
    if (serves(door, entry.at)) paths.push_back(entry.path);
  }
  return std::string(nearest_word(path, paths));
}

// The end of a 404's message: where the client probably finds what it looks for.
std::string where_else(Door door, std::string_view path) {
  if (door == Door::kAdmin) {
    if (path == "/admin" || path == "/admin/") return "; the page is at `/`";
    if (path.starts_with("/v1/") || is_at(Door::kPublic, path)) {
      return "; this port administers, OpenAI's API is on the other one";
    }
  }
  const std::string meant = path_meant(door, path);
  if (!meant.empty()) return "; did you mean `" + meant + "`?";
  if (door == Door::kAdmin) return {};
  if (path == "/" || path.starts_with("/v1")) {
    return "; what is there begins with GET /v1/models and POST /v1/chat/completions";
  }
  return is_at(Door::kAdmin, path) ? "; it is on the port for administration" : "";
}

ApiError no_such_path(Door door, std::string_view path) {
  const std::string_view why = why_left_out(path);
  ApiError error = bad_request("there is nothing at `" + to_valid_utf8(utf8_prefix(path, 128)) +
                               "`" + (why.empty() ? where_else(door, path) : std::string(why)));
  error.status = 404;
  error.code = why.empty() ? "not_found" : "unsupported";
  return error;
}

MaybeError check_method(std::string_view method, Routed& out) {
  const bool post = takes_body(out.route), deletable = out.route == Route::kResponse;
  out.deletes = deletable && method == "DELETE";
  if ((out.head && !post) || out.deletes || method == (post ? "POST" : "GET")) return {};
  std::string_view may = post ? "POST" : "GET";
  if (deletable) may = "GET and DELETE";
  ApiError error = bad_request("this path answers " + std::string(may) + " only");
  error.status = 405;
  error.code = "method_not_allowed";
  error.allow = post ? "POST" : deletable ? "GET, HEAD, DELETE" : "GET, HEAD";
  return error;
}

}  // namespace

MaybeError find_route(Door door, std::string_view method, std::string_view target, Routed& out) {
  // Errors depend on it, too: a body after an answer to HEAD would be read as the next answer.
  out.head = method == "HEAD";
  const std::string_view path = path_of(target);
  const std::string_view whole = target.substr(0, target.find('#'));
  const std::size_t mark = whole.find('?');
  if (mark != std::string_view::npos) out.query = whole.substr(mark + 1);
  const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& entry) {
    return entry.path == path && serves(door, entry.at);
  });
  if (known != kKnown.end()) {
    out.route = known->route;
    return check_method(method, out);
  }
  if (door != Door::kPublic) return no_such_path(door, path);
  if (auto name = named_behind(kModelPrefix, path)) {
    out.route = Route::kModel;
    out.model_name = *std::move(name);
    return check_method(method, out);
  }
  auto id = named_behind(kResponsePrefix, path);
  if (!id || id->find('/') != std::string::npos) return no_such_path(door, path);
  out.route = Route::kResponse;
  out.response = *std::move(id);
  return check_method(method, out);
}

std::optional<std::vector<std::pair<std::string, std::string>>> query_parameters(
    std::string_view query) {
  std::vector<std::pair<std::string, std::string>> all;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    if (one.empty()) continue;
    const std::size_t equals = one.find('=');
    auto name = percent_decoded(one.substr(0, equals));
    auto value = percent_decoded(equals == std::string_view::npos ? "" : one.substr(equals + 1));
    if (!name || !value) return {};
    all.emplace_back(*std::move(name), *std::move(value));
  }
  return all;
}

bool authorised(std::string_view authorization, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view given =
      authorization.starts_with(kScheme) ? authorization.substr(kScheme.size()) : "";
  unsigned found = 0;
  for (const std::string& key : keys) {
    unsigned different = key.empty() || key.size() != given.size() ? 1u : 0u;
    for (std::size_t i = 0; i < given.size() && !key.empty(); ++i) {
      different |= static_cast<unsigned char>(key[i % key.size()] ^ given[i]);
    }
    found |= static_cast<unsigned>(different == 0);
  }
  return found != 0;
}

}  // namespace causeway::server
