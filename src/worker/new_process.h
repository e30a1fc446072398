// A worker's process that has no slices yet. After a loss it is waited for; a spare is looked at
// now and then. Internal to this room.
#pragma once

#include <memory>

#include "worker/child.h"
#include "worker/worker.h"

namespace causeway::worker {

class Channel;

//  start ─▶ started ─ its Hello ─▶ greeted ─ Prepared ─▶ prepared: says nothing until it is told
//                                                         to open slices
//
// One thread.
class NewProcess {
 public:
  // Starts the program and sends it our Hello. A spare waits for Open as long as it is connected.
  // kIo: the system cannot start it. Options and clock must outlive the process.
  static Result<std::unique_ptr<NewProcess>> start(const WorkerOptions& options, bool spare,
                                                   const Clock& clock);
  NewProcess(const WorkerOptions& options, bool spare, const Clock& clock);  // by start()
  ~NewProcess();
  NewProcess(const NewProcess&) = delete;
  NewProcess& operator=(const NewProcess&) = delete;

  // Takes the next message, if one comes within `wait`, and answers it. kUnsupported: it is of
  // another build; kDeadlineExceeded: it has said nothing for as long as it may; kUnavailable: it
  // has ended; kCorrupt: it says something else than it should; or what it says has failed.
  Status advance(Nanos wait);
  bool prepared() const { return phase_ == Phase::kPrepared; }
  bool spare() const { return spare_; }
  int pid() const { return pid_; }
  Nanos hello() const { return hello_; }      // from its start until its Hello
  Nanos prepare() const { return prepare_; }  // from then until it was prepared

  // What starts, ends and is spoken with; the owner may take both, once. The channel must outlive
  // further calls of advance().
  Child take_child() { return std::move(child_); }
  std::unique_ptr<Channel> take_channel() { return std::move(owned_); }

 private:
  enum class Phase { kStarted, kGreeted, kPrepared };

  Status begin();
  Status take_hello(const Message& message);
  Status take_prepared(const Message& message, weights::FileDescriptor witness);

  const WorkerOptions& options_;
  const bool spare_;
  const Clock& clock_;
  Child child_;
  int pid_ = -1;
  std::unique_ptr<Channel> owned_;
  Channel* channel_ = nullptr;
  Phase phase_ = Phase::kStarted;
  Nanos since_;  // when the phase began
  Nanos hello_, prepare_;
};

}  // namespace causeway::worker
