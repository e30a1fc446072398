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
#include "text/tool_calls/tool_call_format.h"
#include "transfer/link_lease.h"
#include "weights/expert_policy.h"

namespace causeway::worker {

inline constexpr std::uint32_t kProtocol = 12;
inline constexpr std::uint64_t kMagic = 0x6b72776361757365;  // the first bytes of no other protocol
inline constexpr std::int64_t kSlicesMax = 64;               // of a worker

enum class Backend : std::uint8_t { kHost, kCuda };

// The memory of one of the worker's slices; zero: the slice chooses, as in its options.
struct SlicePlan {
  std::int32_t processors = 0;  // of the GPU, or threads; zero: all
  std::int32_t unit = 0;        // slice::SlicePart's
  double share = 1;             // of what the GPU's memory has for slices
  Bytes kv;
  Bytes kv_frame;
  Bytes kv_host;
  Bytes weights;
  Bytes ring;
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;
  double memory_utilization = 0.9;
  engine::EngineOptions engine;  // without the members that the slice sets: frames, twins, border
};

// A model that may be attached; slices are sized for the largest.
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
  // What the worker always has of links that it shares with others; it leases more of them
  // (transfer/link_lease.h). Zero: it shares no link.
  transfer::LinkRates link_least = {};

  bool leases() const { return link_least.in > 0 && link_least.out > 0; }
};

// The first message of both sides. Its layout is the same in all versions of the protocol.
struct Hello {
  std::uint64_t magic = kMagic;
  std::uint32_t protocol = kProtocol;
  std::string version;  // of the build
};

// Prepare everything that needs none of the memory that an earlier process may still hold: driver,
// contexts, libraries.
struct Prepare {
  WorkerPlan plan;
};
// The message carries a descriptor that hangs up at once when the process is killed (witness.h),
// where the system has such.
struct Prepared {};
// Open the plan's slices: no earlier process holds memory any more.
struct Open {};
struct Opened {
  struct Slice {
    std::int64_t frames = 0;
    slice::WeightRoom room;
    slice::SliceLimits limits;
  };
  std::vector<Slice> slices;
};
// Prepare or Open has failed, and the worker ends.
struct Failed {
  Error error;
};

// Attach a model. The message carries the descriptor of the region in which the model's weights
// begin.
struct Attach {
  std::int64_t call = 0;  // identifies the answer
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
  std::vector<TokenId> eos = {};  // tokens that end an answer with a form
  text::ToolCallFormat tool_calls = text::ToolCallFormat::kNone;
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
  // request.constraint is set: the receiver compiles it again
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

// The request waits in the slice's engine. Sent before anything else is done for it.
struct Queued {
  std::int32_t slice = 0;
  RequestId request;
};
// The requests of a step and of the steps in flight, sent before anything is done for that step
// (engine::StepWatch). The slice's other queued requests wait.
struct Stepping {
  std::int32_t slice = 0;
  std::vector<RequestId> requests;
};

// The observations that have changed since the last message.
struct Observed {
  std::int32_t slice = 0;
  request::Observation all;  // of the whole slice, with link_bytes
  std::vector<std::pair<ModelId, request::Observation>> models;
  Nanos link_busy = {};  // for how long such bytes were on their way
};
struct Alive {};

using Message = std::variant<Hello, Prepare, Prepared, Open, Opened, Failed, Attach, Attached,
                             Detach, Detached, Submit, Cancel, Outputs, Observed, Alive, Queued,
                             Stepping, transfer::LinkAsk, transfer::LinkLease>;

std::vector<std::byte> encode(const Message& message);
// Decodes any bytes. kCorrupt.
Result<Message> decode(std::span<const std::byte> bytes);

// Compares the builds of both sides. kUnsupported names them if they differ.
Status check_hello(const Hello& theirs, const Hello& ours);

}  // namespace causeway::worker
