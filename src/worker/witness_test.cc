#include "worker/witness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>

namespace causeway::worker::witness_test {
namespace {

using weights::FileDescriptor;

// What poll() says of this within `timeout_ms`; 0: nothing.
short polled(int descriptor, int timeout_ms) {
  pollfd one{descriptor, 0, 0};
  return ::poll(&one, 1, timeout_ms) > 0 ? one.revents : short{0};
}

TEST(Witness, HangsUpWhenItEndsAndNotBefore) {
  auto witness = Witness::start();
  if (!witness.ok())
    GTEST_SKIP() << "needs a thread with a descriptor table of its own: "
                 << witness.error().message;
  const FileDescriptor end(::dup((*witness)->end()));
  EXPECT_EQ(polled(end.get(), 50), 0);
  witness->reset();
  EXPECT_EQ(polled(end.get(), 5000), POLLHUP);
}

// A descriptor that the witness kept would never be closed: its other side would wait for ever.
TEST(Witness, KeepsNoDescriptorOfTheProcess) {
  std::array<int, 2> low{}, high{};
  ASSERT_EQ(::pipe2(low.data(), O_CLOEXEC), 0);
  const auto witness = Witness::start();
  if (!witness.ok())
    GTEST_SKIP() << "needs a thread with a descriptor table of its own: "
                 << witness.error().message;
  ASSERT_EQ(::pipe2(high.data(), O_CLOEXEC), 0);
  const FileDescriptor before(low[0]), after(high[0]);
  ::close(low[1]);
  ::close(high[1]);
  EXPECT_EQ(polled(before.get(), 5000), POLLHUP);
  EXPECT_EQ(polled(after.get(), 5000), POLLHUP);
}

// Its own ends are not among those of the other threads, so that nothing else holds them open.
TEST(Witness, TellsOfItsOwnEndAlone) {
  auto one = Witness::start();
  auto other = Witness::start();
  for (const auto* witness : {&one, &other}) {
    if (!witness->ok())
      GTEST_SKIP() << "needs a thread with a descriptor table of its own: "
                   << witness->error().message;
  }
  const FileDescriptor ends(::dup((*one)->end())), stays(::dup((*other)->end()));
  one->reset();
  EXPECT_EQ(polled(ends.get(), 5000), POLLHUP);
  EXPECT_EQ(polled(stays.get(), 50), 0);
}

}  // namespace
}  // namespace causeway::worker::witness_test
