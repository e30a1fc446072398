// Processes: exit with work under way, fork, exec, reset, and what copies cost the processor. Cases
// that end the process say `ok` first; run.py wants exit status 0 in time as well.
#include <sys/resource.h>
#include <sys/wait.h>

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kBytes = 256 * kMiB;

// Buffers and streams with large copies queued on them, which nobody waits for.
struct Work {
  HostMemory up{kBytes};
  HostMemory down{kBytes};
  DeviceMemory device{kBytes};
  DeviceMemory down_device{kBytes};
  Stream first;
  Stream second;

  void queue(int rounds) const {
    for (int i = 0; i < rounds; ++i) {
      GPU_OK(cudaMemcpyAsync(device.data(), up.data(), kBytes, cudaMemcpyHostToDevice, first));
      GPU_OK(
          cudaMemcpyAsync(down.data(), down_device.data(), kBytes, cudaMemcpyDeviceToHost, second));
    }
  }
};

// Buffers that outlive main(): destroyed, if at all, by the process's end.
Work* work_without_end() { return std::make_unique<Work>().release(); }

void exits_with_work(Context&) {
  Work* const work = work_without_end();
  spin(work->first, 50);
  work->queue(8);
  say_ok("exits_with_work", "");
  std::exit(0);
}

void exits_at_once_with_work(Context&) {
  Work* const work = work_without_end();
  work->queue(8);
  say_ok("exits_at_once_with_work", "");
  ::_exit(0);
}

void exits_from_another_thread(Context&) {
  Work* const work = work_without_end();
  work->queue(4);
  std::thread([] {
    say_ok("exits_from_another_thread", "");
    std::exit(0);
  }).join();
}

// A thread copies on while the main thread ends the process.
void exits_while_a_thread_copies(Context&) {
  Work* const work = work_without_end();
  std::thread([work] {
    for (;;) {
      if (cudaMemcpy(work->device.data(), work->up.data(), kBytes, cudaMemcpyHostToDevice) !=
          cudaSuccess) {
        return;  // the runtime is going down
      }
    }
  }).detach();
  ::poll(nullptr, 0, 200);
  say_ok("exits_while_a_thread_copies", "");
  std::exit(0);
}

// Copies in a function that exit() calls, as destructors of globals do. The runtime may refuse
// them; if it does them, they must be right.
void copies_at_exit(Context&) {
  static Work* work = nullptr;
  work = work_without_end();
  work->queue(1);
  work->first.wait();
  work->second.wait();
  std::atexit([] {
    fill_host(work->up.data(), kBytes, {3, 0});
    fill_host(work->down.data(), kBytes, {4, 0});
    const bool done = cudaMemcpy(work->device.data(), work->up.data(), kBytes,
                                 cudaMemcpyHostToDevice) == cudaSuccess &&
                      cudaMemcpy(work->down.data(), work->device.data(), kBytes,
                                 cudaMemcpyDeviceToHost) == cudaSuccess;
    if (done && first_wrong(work->down.data(), kBytes, {3, 0}) != kBytes) {
      std::printf("WRONG copies_at_exit bytes differ\n");
      std::fflush(stdout);
      ::_exit(1);
    }
    (void)cudaFree(work->device.data());
  });
  say_ok("copies_at_exit", "");
  std::exit(0);
}

// The exit status of a child, which must end within 40 s.
int wait_for(pid_t child) {
  const double end = seconds_now() + 40;
  int status = 0;
  while (seconds_now() < end) {
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) {
      expect(WIFEXITED(status), "the child was ended by signal %d", WTERMSIG(status));
      return WEXITSTATUS(status);
    }
    ::poll(nullptr, 0, 10);
  }
  (void)::kill(child, SIGKILL);
  (void)::waitpid(child, &status, 0);
  throw Wrong("the child did not end");
}

// The parent copies on, rightly, while a child, which uses no CUDA, does `in_child`.
void forks(Context& context, void (*in_child)(), int wanted) {
  const Work work;
  const Stream stream;
  for (int round = 0; round < 2; ++round) {
    work.queue(3);
    std::fflush(stdout);
    const pid_t child = ::fork();
    expect(child >= 0, "no fork");
    if (child == 0) {
      in_child();
      ::_exit(99);
    }
    round_trip(stream, 64 * kMiB, context.random.next());
    const int status = wait_for(child);
    expect(status == wanted, "the child's exit status is %d, not %d", status, wanted);
    round_trip(stream, 64 * kMiB, context.random.next());
    work.first.wait();
    work.second.wait();
  }
}

void fork_and_exit_at_once(Context& context) {
  forks(
      context, [] { ::_exit(11); }, 11);
}

void fork_and_exit(Context& context) {
  forks(
      context, [] { std::exit(12); }, 12);
}

// The child's memory and heap work, then it ends.
void fork_and_work(Context& context) {
  forks(
      context,
      [] {
        std::vector<unsigned char> memory(8 * kMiB);
        fill_host(memory.data(), memory.size(), {1, 0});
        ::_exit(first_wrong(memory.data(), memory.size(), {1, 0}) == memory.size() ? 13 : 1);
      },
      13);
}

void fork_and_exec(Context& context) {
  forks(
      context, [] { ::execl("/bin/sh", "sh", "-c", "exit 14", static_cast<char*>(nullptr)); }, 14);
}

// The child becomes another CUDA program.
void fork_and_exec_cuda(Context& context) {
  forks(
      context,
      [] {
        (void)std::freopen("/dev/null", "w", stdout);
        ::execl("/proc/self/exe", "program", "--case", "kernel_after", static_cast<char*>(nullptr));
      },
      0);
}

// Everything of the GPU goes, with copies under way; then a new start.
void resets_the_device(Context& context) {
  for (int round = 0; round < 3; ++round) {
    round_trip(Stream(), 64 * kMiB, context.random.next());
    Work* const work = work_without_end();
    work->queue(round == 0 ? 0 : 3);
    if (round == 1) GPU_OK(cudaDeviceSynchronize());
    GPU_OK(cudaDeviceReset());  // the memory, streams and events of this round are gone with it
    load_kernels();
    round_trip(Stream(), 64 * kMiB, context.random.next());
  }
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// With nothing to copy, nobody works: at most 2 % of one processor.
void idle_costs_nothing(Context& context) {
  const Stream stream;
  for (int i = 0; i < 3; ++i) round_trip(stream, 64 * kMiB, context.random.next());
  ::poll(nullptr, 0, 500);  // what is left of the last copy may end
  const double begin = cpu_seconds();
  ::poll(nullptr, 0, 3000);
  const double share = (cpu_seconds() - begin) / 3;
  context.detail = text("%.2f %% of a processor", 100 * share);
  expect(share <= 0.02, "%s with nothing to copy", context.detail.c_str());
}

// Waiting without spinning, copies cost at most two processors.
void copying_costs_little(Context& context) {
  const Work work;
  const Event done(cudaEventBlockingSync | cudaEventDisableTiming);
  const Event also_done(cudaEventBlockingSync | cudaEventDisableTiming);
  work.queue(1);
  done.record(work.first);
  done.wait();
  const double begin = seconds_now();
  const double cpu_begin = cpu_seconds();
  std::size_t copied = 0;
  while (seconds_now() < begin + 2) {
    work.queue(2);
    done.record(work.first);
    also_done.record(work.second);
    done.wait();
    also_done.wait();
    copied += 4 * kBytes;
  }
  const double wall = seconds_now() - begin;
  const double share = (cpu_seconds() - cpu_begin) / wall;
  context.detail = text("%.0f %% of a processor, %.1f GB/s both ways", 100 * share,
                        static_cast<double>(copied) / wall / 1e9);
  expect(share <= 2, "%s", context.detail.c_str());
}

}  // namespace

Cases process_cases() {
  return {{"exits_with_work", exits_with_work, 1, Run::kAlone},
          {"exits_at_once_with_work", exits_at_once_with_work, 1, Run::kAlone},
          {"exits_from_another_thread", exits_from_another_thread, 1, Run::kAlone},
          {"exits_while_a_thread_copies", exits_while_a_thread_copies, 1, Run::kAlone},
          {"copies_at_exit", copies_at_exit, 1, Run::kAlone},
          {"fork_and_exit_at_once", fork_and_exit_at_once, 1, Run::kAlone},
          {"fork_and_exit", fork_and_exit, 1, Run::kAlone},
          {"fork_and_work", fork_and_work, 1, Run::kAlone},
          {"fork_and_exec", fork_and_exec, 1, Run::kAlone},
          {"fork_and_exec_cuda", fork_and_exec_cuda, 1, Run::kAlone},
          {"resets_the_device", resets_the_device, 1, Run::kAlone},
          {"idle_costs_nothing", idle_costs_nothing, 1, Run::kAlone},
          {"copying_costs_little", copying_costs_little, 1, Run::kAlone}};
}

}  // namespace program
