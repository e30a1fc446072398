// The interface that the server uses: the catalogue of models, and a way to have a request served
// wherever the fleet decides. Calls never block: a model is made ready behind submit().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/slice_handle.h"
#include "fleet/sleep_mode.h"
#include "request/slo.h"
#include "schedule/rotation_policy.h"
#include "text/chat_template.h"
#include "text/reasoning/reasoning_format.h"
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
  // How much device memory its weights may take; beyond that they are streamed. Zero: no limit.
  Bytes max_resident = {};
  request::Slo slo;                        // of requests that name no targets
  double alpha = schedule::kAlphaDefault;  // of policy rotary
  std::int64_t vocab = 0;                  // rows of the logits; ids beyond are invalid
  std::int64_t hidden = 0;                 // elements of a hidden state, so of an embedding
  std::vector<TokenId> eos;                // generation stops at these
  GenerationDefaults defaults;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;
  // The format in which the model writes tool calls.
  text::ToolCallFormat tool_calls = text::ToolCallFormat::kNone;
  text::ReasoningFormat reasoning = text::ReasoningFormat::kNone;  // the format of its reasoning
  std::string chat_template_error;  // why there is no template: "its folder has no …"
  std::string bos_text, eos_text;   // for templates
};

struct ModelStatus {
  ModelState state = ModelState::kUnloaded;
  Bytes host_bytes;    // of weights in host memory
  Bytes device_bytes;  // the part of host_bytes that is cached on devices
  // For a ready model that is streamed: the bytes that cross the link at every step.
  Bytes streamed_bytes;
  // The expected time of a step. For a streamed model it follows from the rate that the link
  // grants; for a model whose slice or link has more demands than it can serve, from their sums.
  // Zero: the target is expected to be kept, or nothing is known of the link.
  Nanos predicted_tpot;
  bool best_effort = false;  // predicted_tpot exceeds the target
  std::int64_t requests_running = 0;
  std::int64_t requests_waiting = 0;  // including asks to load the model
  std::int64_t requests_rotary = 0;   // whose KV is in host memory
  std::string last_error;             // of the last attempt to load
  std::int64_t loads_failed = 0;      // since the start
  // How far the load into host memory is; negative: not known, or no load is under way.
  int load_percent = -1;
  bool pinned = false;
  bool attached = false;  // a slice has it attached, and brings its weights when they are needed
};

// What an operator may ask for.
enum class AskKind {
  kLoad,    // ends when the model serves; other models leave for it as for a request
  kUnload,  // ends when the model has left slices and host memory; refused while it has requests
  kPin,     // the model is not unloaded from now on; where it is now does not change
  kUnpin,
  kSleep,  // unloads every model without requests that is not pinned; see SleepMode
  kWake,   // loads the sleeping models again, as far as they fit; ends at once
  // Reads the folder of models again: new models are served, and models that are gone are not,
  // unless they have requests or are pinned. Ends when those have left host memory.
  kReload,
};

struct Ask {
  RequestId id;  // must differ from the ids of requests that have not ended
  AskKind kind = AskKind::kLoad;
  ModelId model = {};       // unused by kSleep, kWake and kReload
  bool keeps_home = false;  // of kUnload and kSleep: weights stay in host memory
  SleepMode mode = SleepMode::kIdle;  // of kSleep
};

// What changed when the catalogue was last read, compared with the start.
struct ReloadReport {
  struct Exception {
    std::string model, why;
  };
  std::vector<std::string> added, removed;
  std::vector<Exception> kept;      // their folders are gone, but they are still served
  std::vector<Exception> left_out;  // their folders are there, but they cannot be served
};

// Thread-safe. Entries live as long as the fleet, also those of models that are served no longer:
// of these requests are refused with kNotFound.
class Fleet {
 public:
  virtual ~Fleet() = default;

  // The models that are served now.
  virtual std::vector<const CatalogueEntry*> catalogue() const = 0;
  // nullptr when there is no such model. Never touches the file system.
  virtual const CatalogueEntry* find(std::string_view name) const = 0;
  virtual ModelStatus status(ModelId model) const = 0;

  // Submits a request of a registered model in any state, as SliceHandle::submit() does: it waits
  // while its model is made ready, and ends with kError when that fails. Outputs go to the fleet's
  // sink.
  virtual Status submit(request::Request request) = 0;
  // The same for a model that must be loaded already; kUnavailable when it is not.
  virtual Status probe(request::Request request) = 0;
  // An error: the ask is refused, with no output. kInvalidArgument: the kind or the state of the
  // model does not allow it; kUnavailable: try again later. Otherwise the ask ends as a request
  // does, by one output without tokens, with the reason kStop, or kError with code and message.
  virtual Status ask(const Ask& ask) = 0;
  // Cancels a request or an ask. What an ask has begun is completed.
  virtual void cancel(RequestId request) = 0;
  // Whether models were sent to sleep and not woken, and no model is on a slice.
  virtual bool asleep() const = 0;
  virtual ReloadReport last_reload() const = 0;
  // The sum over all slices.
  virtual request::Observation observe() const = 0;
  // By model, including models that are not served any more, whose counters stay.
  virtual std::vector<std::pair<ModelId, request::Observation>> observe_models() const = 0;
};

}  // namespace causeway::fleet
