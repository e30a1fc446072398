// The messages between supervisor and worker: plain data. docs/design/worker.md has which side
// sends which, and when; fields.h has the fields that are sent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "engine/engine.h"
#include "request/batch.h"
#include "request/constraint.h"
#include "request/request.h"
#include "schedule/rotation_policy.h"
#include "slice/slice.h"
#include "transfer/link_lease.h"
#include "weights/expert_policy.h"

namespace causeway::worker {

inline constexpr std::uint32_t kProtocol = 7;
inline constexpr std::uint64_t kMagic = 0x6b72776361757365;  // the first bytes of no other protocol
inline constexpr std::int64_t kSlicesMax = 64;               // of a worker

enum class Backend : std::uint8_t { kHost, kCuda };

// The memory that a slice of the worker has; zero: its own choice, as in the slice's options.
struct SlicePlan {
  std::int32_t processors = 0;  // of the GPU, or threads; zero: all
  double share = 1;             // of what the GPU's memory has for slices
  Bytes kv;
  Bytes kv_frame;
  Bytes kv_host;
  Bytes weights;
  Bytes ring;
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;
  double memory_utilization = 0.9;
  engine::EngineOptions engine;  // less what the slice sets itself: frames, twins, border
};

// A model that may come, for which slices are sized.
struct PlannedModel {
  ModelId id;
  std::string name;
  std::filesystem::path directory;
  Tokens max_model_len;
  bool pinned = false;
  Bytes max_resident;
};

struct WorkerPlan {
  Backend backend = Backend::kHost;
  std::int32_t gpu = 0;
  std::vector<SlicePlan> slices;  // 1 to kSlicesMax
  std::vector<PlannedModel> models;
  // What the worker has in any case of links that it shares with others, and leases more of
  // (transfer/link_lease.h); zero: it shares none.
  transfer::LinkRates link_least = {};

  bool leases() const { return link_least.in > 0 && link_least.out > 0; }
};

// First, from both sides. Its form is the same in all versions of the protocol.
struct Hello {
  std::uint64_t magic = kMagic;
  std::uint32_t protocol = kProtocol;
  std::string version;  // of the build
};

// Make ready all that needs none of the memory that a process before this one may still have:
// driver, contexts, libraries.
struct Prepare {
  WorkerPlan plan;
};
struct Prepared {};
// The slices of the plan: no process before this one has memory any more.
struct Open {};
struct Opened {
  struct Slice {
    std::int64_t frames = 0;
    slice::WeightRoom room;
    slice::SliceLimits limits;
  };
  std::vector<Slice> slices;
};
// Prepare or Open has failed: the worker ends.
struct Failed {
  Error error;
};

// A model is to be attached. The message carries the descriptor of the region in which the model's
// weights lie from the beginning.
struct Attach {
  std::int64_t call = 0;  // by which the answer is known
  std::int32_t slice = 0;
  ModelId model = {};
  std::string name = {};
  std::filesystem::path directory = {};
  Tokens max_model_len = {};
  Bytes max_resident = {};
  double alpha = schedule::kAlphaDefault;
  Nanos tpot = {};
  bool pinned = false;
  Bytes bytes = {};
  std::vector<TokenId> eos = {};  // end an answer that has a form
  std::string mark = {};          // the special token that begins calls, or ""
};
struct Attached {
  std::int64_t call = 0;
  std::optional<Error> error;
  Bytes streamed;
  Nanos predicted_tpot;
};
struct Detach {
  std::int64_t call = 0;
  std::int32_t slice = 0;
  ModelId model;
  Nanos timeout;
};
struct Detached {
  std::int64_t call = 0;
  std::optional<Error> error;
};

struct Submit {
  std::int32_t slice = 0;
  request::Request request;
  // Whether request.constraint is there: it is compiled again where it is used.
  bool formed = false;
  request::ConstraintText form = {};
};
struct Cancel {
  std::int32_t slice = 0;
  RequestId request;
};
struct Outputs {
  std::int32_t slice = 0;
  std::vector<request::Output> outputs;
};

// Before anything else is done for it: the request waits in the slice's engine.
struct Queued {
  std::int32_t slice = 0;
  RequestId request;
};
// Before anything is done for a step: the requests of it and of those in flight
// (engine::StepWatch). The others of the slice wait, from Queued on.
struct Stepping {
  std::int32_t slice = 0;
  std::vector<RequestId> requests;
};

// The observations that have changed since the last message.
struct Observed {
  std::int32_t slice = 0;
  request::Observation all;  // link_bytes: of the slice
  std::vector<std::pair<ModelId, request::Observation>> models;
};
struct Alive {};

using Message = std::variant<Hello, Prepare, Prepared, Open, Opened, Failed, Attach, Attached,
                             Detach, Detached, Submit, Cancel, Outputs, Observed, Alive, Queued,
                             Stepping, transfer::LinkAsk, transfer::LinkLease>;

std::vector<std::byte> encode(const Message& message);
// Reads any bytes. kCorrupt.
Result<Message> decode(std::span<const std::byte> bytes);

// Compares both sides' builds. kUnsupported names them if they differ.
Status check_hello(const Hello& theirs, const Hello& ours);

}  // namespace causeway::worker
