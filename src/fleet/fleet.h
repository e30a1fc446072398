// What the server talks to: the catalogue of models, and a way to have a request served wherever
// the fleet decides. Plain calls that never block: making a model ready happens behind submit().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/slice_handle.h"
#include "request/slo.h"
#include "schedule/rotation_policy.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tool_calls/tool_call_format.h"

namespace causeway::fleet {

enum class ModelState {
  kUnloaded,  // known, not in host memory; a request makes it load
  kLoading,
  kReady,   // in host memory, and on a slice or not
  kActive,  // ready, with requests running or waiting
};

std::string_view name_of(ModelState state);  // "unloaded", "loading", "ready", "active"

// Sampling defaults of generation_config.json.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::int32_t> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

// A model of the catalogue: what never changes while it is served.
struct CatalogueEntry {
  ModelId id;
  std::string name;
  std::int64_t created_unix_seconds = 0;
  Tokens max_model_len;
  Tokens max_prompt{0};  // 0: a prompt may be as long as fits
  // Of the device for its weights, beyond which they are streamed; zero: no limit.
  Bytes max_resident = {};
  request::Slo slo;                        // of requests that name no targets
  double alpha = schedule::kAlphaDefault;  // of policy rotary
  std::int64_t vocab = 0;                  // rows of the logits; ids beyond are invalid
  std::int64_t hidden = 0;                 // elements of a hidden state, so of an embedding
  std::vector<TokenId> eos;                // generation stops at these
  GenerationDefaults defaults;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;
  text::ToolCallFormat tool_calls = text::ToolCallFormat::kNone;  // how the model writes calls
  std::string chat_template_error;  // why there is none: "its folder has no …"
  std::string bos_text, eos_text;   // for templates
};

struct ModelStatus {
  ModelState state = ModelState::kUnloaded;
  Bytes host_bytes;    // of weights in host memory
  Bytes device_bytes;  // of these, cached on devices
  // Of a ready model that is streamed: what crosses the link at every step, and how long a step is
  // expected to take for it; zero: where nothing is streamed, or known of the link.
  Bytes streamed_bytes;
  Nanos predicted_tpot;
  std::int64_t requests_running = 0;
  std::int64_t requests_waiting = 0;  // and loads that were asked for
  std::int64_t requests_rotary = 0;   // whose KV is in host memory
  std::string last_error;             // of the last attempt to load
  std::int64_t loads_failed = 0;      // since the start
  int load_percent = -1;  // of a load into host memory that is under way; negative: not known
  bool pinned = false;
  bool attached = false;  // to a slice, which brings its weights when they are asked for
};

// What the operator may ask for, beside requests.
enum class AskKind {
  kLoad,    // ends when the model serves; others give way for it as they do for a request
  kUnload,  // ends when it has left slices and host memory; refused while it has requests
  kPin,     // it is not unloaded from now on; where it is now does not change
  kUnpin,
  kSleep,  // every model without requests is unloaded, pinned ones apart
  kWake,   // those are loaded again, as far as they fit; ends at once
  // The folder of models is read again: what is new is served, what is gone no longer, unless it
  // has requests or is pinned. Ends when that has left host memory.
  kReload,
};

struct Ask {
  RequestId id;  // unlike those of requests that have not ended
  AskKind kind = AskKind::kLoad;
  ModelId model = {};       // not of kSleep, kWake and kReload
  bool keeps_home = false;  // of kUnload and kSleep: weights stay in host memory
};

// What became of the catalogue when it was read last, since the start.
struct ReloadReport {
  struct Exception {
    std::string model, why;
  };
  std::vector<std::string> added, removed;
  std::vector<Exception> kept;      // their folders are gone, and they are served on
  std::vector<Exception> left_out;  // their folders are there, and they cannot be served
};

// Thread-safe. Entries live as long as the fleet, also those of models that are served no longer:
// of these requests are refused with kNotFound.
class Fleet {
 public:
  virtual ~Fleet() = default;

  // What is served now.
  virtual std::vector<const CatalogueEntry*> catalogue() const = 0;
  // nullptr when there is no such model. Never touches the file system.
  virtual const CatalogueEntry* find(std::string_view name) const = 0;
  virtual ModelStatus status(ModelId model) const = 0;

  // As SliceHandle::submit, of a registered model in any state: the request waits while its model
  // is made ready, and ends with kError when that fails. Outputs go to the fleet's sink.
  virtual Status submit(request::Request request) = 0;
  // As submit(), of a model that is loaded; kUnavailable when it is not.
  virtual Status probe(request::Request request) = 0;
  // An error: it is refused, and nothing more is heard of it. kInvalidArgument: what the model is
  // or does now does not allow it; kUnavailable: try again later. Else it ends as a request does,
  // by one output without tokens, whose reason is kStop, or kError with a code and why.
  virtual Status ask(const Ask& ask) = 0;
  // A request, or an ask: what that has begun goes on.
  virtual void cancel(RequestId request) = 0;
  // Whether models were sent to sleep and not woken, and no model is on a slice.
  virtual bool asleep() const = 0;
  virtual ReloadReport last_reload() const = 0;
  // All slices together.
  virtual request::Observation observe() const = 0;
  // Models that are served no longer among them, whose counts stay.
  virtual std::vector<std::pair<ModelId, request::Observation>> observe_models() const = 0;
};

}  // namespace causeway::fleet
