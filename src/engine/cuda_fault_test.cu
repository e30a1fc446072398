// What an engine does when its GPU faults or hangs: requests end with the reason, and no wait is
// endless. Faults cannot be undone within a process, so each case is a process of its own.
//   cuda_fault_gpu_test [fault|hang|stuck]      all, one after the other; exit code 77: no GPU
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "device/cuda/cuda_machine.h"
#include "engine/cuda_executor.h"
#include "engine/engine.h"
#include "engine/testing/collecting_sink.h"
#include "engine/testing/faults.cuh"
#include "model/random_model.h"

namespace causeway::engine {
namespace {

constexpr Bytes kFrame = kib(256);
constexpr std::int64_t kFrames = 64;
constexpr Nanos kStepTimeout = seconds(2);
constexpr Nanos kDrain = seconds(3);

[[noreturn]] void fail(const std::string& what) {
  std::printf("FAILED: %s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}
void expect(bool good, const std::string& what) {
  if (!good) fail(what);
}
template <typename T>
T must(Result<T> result, const char* what) {
  if (!result.ok()) fail(std::string(what) + ": " + result.error().message);
  return std::move(result).value();
}
void must(const Status& status, const char* what) {
  if (!status.ok()) fail(std::string(what) + ": " + status.error().message);
}

// A tiny model behind an engine on the GPU.
class Serving {
 public:
  Serving() {
    device_ = must(machine_->open({.name = "test", .arena_bytes = gib(1)}), "the slice");
    const auto current = must(device::CudaCurrent::enter(*device_), "the context");
    model::ModelConfig config = model::random_model_config(model::Family::kLlama);
    config.vocab = 1000;
    const auto placed =
        must(weights::lay_out(model::plan_weights(config, DType::kBF16)), "the layout");
    device::Arena& arena = device_->arena();
    weights_ = must(arena.allocate(arena.extents_for(placed.bytes), device::Arena::End::kHigh),
                    "memory for weights");
    kv_ = must(arena.allocate(arena.extents_for(kFrame * kFrames), device::Arena::End::kLow),
               "memory for KV");
    setup_ = must(device_->make_stream("setup"), "a stream");
    workspace_ = must(model::CudaWorkspace::create(
                          *device_, config, {.rows = 256, .slots = 8, .frames = 256},
                          device_->capabilities().processors, device::cuda_stream_of(*setup_)),
                      "the workspace");
    must(setup_->synchronize(seconds(20)), "the workspace");
    executor_ = must(CudaExecutor::start(*device_, *workspace_,
                                         {.base = kv_.data(), .bytes = kFrame, .count = kFrames}),
                     "the executor");
    const auto layout =
        must(kv::plan_block(model::kv_shape(config, DType::kBF16), kFrame), "blocks");
    auto forward = must(
        model::CudaForward::create(config, {.cached = {&placed, weights_.data()}}, *workspace_, {}),
        "the forward pass");
    must(executor_->add_model(ModelId(0), {.forward = std::move(forward), .layout = layout}),
         "the model");
    EngineOptions options;
    options.core.frames = kFrames;
    options.core.step_timeout = kStepTimeout;
    engine_ = must(Engine::start(options, clock_, *executor_, sink_), "the engine");
    must(engine_->add_model(ModelId(0), {.tokens_per_block = layout.tokens,
                                         .max_model_len = Tokens(4096),
                                         .vocab = config.vocab}),
         "the engine's model");
  }

  Status submit(std::int64_t id, std::int64_t tokens) {
    request::Request request;
    request.id = RequestId(id);
    request.model = ModelId(0);
    request.prompt = {1, 2, 3};
    request.max_tokens = Tokens(tokens);
    return engine_->submit(std::move(request));
  }
  void warm_up() {
    must(submit(1, 8), "a request");
    expect(sink_.wait_for_ends(1) &&
               sink_.of(RequestId(1)).end->reason == request::FinishReason::kLength,
           "a request of a healthy GPU");
  }
  // Destroys everything; returns how long that took.
  Nanos take_down() {
    const Nanos start = clock_.now();
    engine_->stop(Nanos(0));
    engine_.reset();
    executor_.reset();
    workspace_.reset();
    setup_.reset();
    kv_ = device::Extents();
    weights_ = device::Extents();
    device_.reset();
    machine_.reset();
    return clock_.now() - start;
  }

  const RealClock clock_;
  device::HostMemory memory_;
  const device::CudaApi api_ = must(device::load_cuda_api(), "the driver");
  std::unique_ptr<device::CudaMachine> machine_ = must(
      device::CudaMachine::create(api_, {.drain_max = kDrain}, clock_, memory_), "the machine");
  std::unique_ptr<device::Device> device_;
  device::Extents weights_, kv_;
  std::unique_ptr<device::Stream> setup_;
  std::unique_ptr<model::CudaWorkspace> workspace_;
  std::unique_ptr<CudaExecutor> executor_;
  CollectingSink sink_;
  std::unique_ptr<Engine> engine_;
};

// A kernel of this process writes to unmapped memory while requests run.
void fault() {
  Serving serving;
  serving.warm_up();
  must(serving.submit(2, 3000), "a request");
  expect(serving.sink_.wait_for_tokens(RequestId(2), 5), "tokens before the fault");
  {
    const auto stream = must(serving.device_->make_stream("fault"), "a stream");
    must(device::cuda_enqueue(*stream,
                              [](CUstream_st* cuda) -> Status {
                                testing::write_nowhere(cuda);
                                return {};
                              }),
         "a faulting kernel");
    expect(serving.sink_.wait_for_ends(2), "the request ends");
  }
  const auto end = *serving.sink_.of(RequestId(2)).end;
  std::printf("fault: the request ended with: %s\n", end.error.c_str());
  expect(end.reason == request::FinishReason::kError, "it ends with an error");
  expect(!serving.executor_->health().ok(), "the executor says that the GPU is lost");
  for (int i = 0; i < 2000 && serving.engine_->observe().lost.empty(); ++i) usleep(1000);
  const std::string lost = serving.engine_->observe().lost;
  expect(lost.find("is lost to this process") != std::string::npos &&
             lost.find("restart the process") != std::string::npos,
         "the reason says what to do: " + lost);
  expect(serving.submit(3, 1).error().message == lost, "later requests are told why");
  const Nanos took = serving.take_down();
  std::printf("fault: taken down in %.0f ms\n", to_millis(took));
  expect(took < seconds(5), "taking down a lost GPU does not wait");
}

// A kernel that a step sees as endless: its requests end, and if it ends after all the engine
// serves on. `stuck`: it never ends, and the process can still destroy everything.
void hang(bool for_ever) {
  int* released = nullptr;
  Serving serving;
  serving.warm_up();
  {
    const auto current = must(device::CudaCurrent::enter(*serving.device_), "the context");
    expect(cudaHostAlloc(&released, sizeof(int), cudaHostAllocMapped) == cudaSuccess, "a flag");
  }
  *released = 0;
  auto stream = must(serving.device_->make_stream("spin"), "a stream");
  must(device::cuda_enqueue(*stream,
                            [&](CUstream_st* cuda) -> Status {
                              // More blocks than fit, so no other kernel gets an SM.
                              testing::spin(cuda, released);
                              return {};
                            }),
       "a kernel that spins");
  must(serving.submit(2, 3000), "a request");
  const Nanos start = serving.clock_.now();
  expect(serving.sink_.wait_for_ends(2), "the request of a step that hangs ends");
  const auto end = *serving.sink_.of(RequestId(2)).end;
  std::printf("%s: after %.1f s the request ended with: %s\n", for_ever ? "stuck" : "hang",
              to_seconds(serving.clock_.now() - start), end.error.c_str());
  expect(end.error.find("hangs") != std::string::npos, "it says that the device hangs");
  for (int i = 0; i < 2000 && !serving.engine_->observe().hung; ++i) usleep(1000);
  expect(serving.engine_->observe().hung, "the engine says so too");
  expect(!serving.submit(3, 1).ok(), "later requests are refused");
  if (for_ever) {
    const Nanos took = serving.take_down();  // the spinning stream stays
    std::printf("stuck: taken down in %.1f s\n", to_seconds(took));
    expect(took < kDrain * 3 + seconds(5), "taking down a GPU that hangs ends");
    std::printf("stuck: PASSED\n");
    std::fflush(stdout);
    *released = 1;
    std::_Exit(0);
  }
  *released = 1;
  must(stream->synchronize(seconds(20)), "the kernel ends");
  for (int i = 0; i < 5000 && serving.engine_->observe().hung; ++i) usleep(1000);
  expect(!serving.engine_->observe().hung, "the engine serves on");
  must(serving.submit(4, 4), "a request afterwards");
  expect(serving.sink_.wait_for_ends(3), "it ends");
  expect(serving.sink_.of(RequestId(4)).end->reason == request::FinishReason::kLength,
         "as it should");
  stream.reset();
  serving.take_down();
}

int run_case(const std::string& name) {
  if (name == "fault") fault();
  if (name == "hang") hang(false);
  if (name == "stuck") hang(true);
  std::printf("%s: PASSED\n", name.c_str());
  return 0;
}

// CUDA must not be touched here, because it does not survive a fork.
int run_all(const char* program) {
  bool good = true;
  for (const char* name : {"fault", "hang", "stuck"}) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      alarm(120);  // a case that hangs is killed, and has failed
      execl(program, program, name, static_cast<char*>(nullptr));
      std::_Exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return 77;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    std::printf("%s: FAILED with status %d\n", name, status);
    good = false;
  }
  std::printf(good ? "PASSED\n" : "FAILED\n");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace causeway::engine

int main(int argc, char** argv) {
  if (argc < 2) return causeway::engine::run_all("/proc/self/exe");
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  return causeway::engine::run_case(argv[1]);
}
