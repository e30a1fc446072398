#include "worker/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/random.h"

namespace causeway::worker::channel_test {
namespace {

using weights::FileDescriptor;

std::vector<std::byte> bytes_of(std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(count);
  Random random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override { connect({}); }
  void connect(const ChannelLimits& limits) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    a_ = Channel::open(FileDescriptor(ends[0]), limits).value();
    raw_ = FileDescriptor(::dup(ends[1]));
    b_ = Channel::open(FileDescriptor(ends[1]), limits).value();
  }
  // The next message at b; empty, after a failure, when none comes.
  Received await(Channel& channel) {
    for (int i = 0; i < 10'000; ++i) {
      auto received = channel.receive(millis(10));
      if (!received.ok()) ADD_FAILURE() << received.error().message;
      if (!received.ok()) return Received();
      if (*received) return std::move(**received);
    }
    ADD_FAILURE() << "no message comes";
    return Received();
  }
  void raw(const std::vector<std::uint8_t>& bytes) {
    ASSERT_EQ(::write(raw_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  std::unique_ptr<Channel> a_, b_;
  FileDescriptor raw_;  // b's end
};

TEST_F(ChannelTest, MessagesOfAnySizeArriveInOrderAndWhole) {
  std::vector<std::vector<std::byte>> messages;
  for (const std::size_t size : {0u, 1u, 7u, 32'763u, 32'768u, 300'000u, 5'000'000u, 3u}) {
    messages.push_back(bytes_of(size, size));
  }
  std::thread sender([&] {
    for (const auto& message : messages) ASSERT_TRUE(a_->send(message).ok());
    for (int i = 0; i < 500; ++i) (void)a_->receive(millis(1)).ok();  // sends what is queued
  });
  for (const auto& message : messages) EXPECT_EQ(await(*b_).message, message);
  sender.join();
}

TEST_F(ChannelTest, DescriptorsComeWithTheirMessages) {
  std::vector<FileDescriptor> files;
  for (int i = 0; i < 5; ++i) {
    files.emplace_back(::memfd_create("file", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(files.back().get(), 100 + i), 0);
  }
  // Between long messages that the socket does not hold, so that some are queued.
  const auto filler = bytes_of(200'000, 1);
  for (const FileDescriptor& file : files) {
    ASSERT_TRUE(a_->send(filler).ok());
    ASSERT_TRUE(a_->send(bytes_of(4, 2), file.get()).ok());
  }
  files.clear();  // those under way are copies
  std::thread sender([&] {
    for (int i = 0; i < 200; ++i) (void)a_->receive(millis(1)).ok();
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(await(*b_).descriptor.valid());
    const Received received = await(*b_);
    struct stat status {};
    ASSERT_EQ(::fstat(received.descriptor.get(), &status), 0);
    EXPECT_EQ(status.st_size, 100 + i);
    EXPECT_NE(::fcntl(received.descriptor.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  sender.join();
}

TEST_F(ChannelTest, NothingWaitsForAPeerThatDoesNotRead) {
  connect({.message_max = mib(1), .queued_max = mib(2)});
  EXPECT_EQ(a_->send(bytes_of((1 << 20) + 1, 1)).error().code, ErrorCode::kResourceExhausted);
  const auto message = bytes_of(100'000, 1);
  int taken = 0;
  Status sent;
  while ((sent = a_->send(message)).ok() && taken < 1000) ++taken;
  EXPECT_EQ(sent.error().code, ErrorCode::kResourceExhausted);
  EXPECT_GT(taken, 20);
  EXPECT_LT(taken, 60);
  std::thread sender([&] {
    for (int i = 0; i < 500; ++i) (void)a_->receive(millis(1)).ok();
  });
  for (int i = 0; i < taken; ++i) EXPECT_EQ(await(*b_).message, message);
  sender.join();
  EXPECT_TRUE(a_->send(message).ok());
}

TEST_F(ChannelTest, ThePeersEndIsSeen) {
  ASSERT_TRUE(a_->send(bytes_of(10, 1)).ok());
  raw({200, 0, 0, 0, 0, 1, 2});  // a message that never ends
  b_.reset();
  raw_ = FileDescriptor();
  Status end;
  for (int i = 0; i < 100 && end.ok(); ++i) {
    const auto received = a_->receive(millis(10));
    if (!received.ok()) end = received.error();
  }
  EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(a_->send(bytes_of(10, 1)).error().code, ErrorCode::kUnavailable);
}

TEST_F(ChannelTest, WhatAreNoFramesIsRefused) {
  const auto refused = [&] {
    for (int i = 0; i < 100; ++i) {
      const auto received = a_->receive(millis(10));
      if (!received.ok()) return received.error().code == ErrorCode::kCorrupt;
    }
    return false;
  };
  raw({0xff, 0xff, 0xff, 0xff, 0});  // 4 GiB
  EXPECT_TRUE(refused());
  connect({});
  raw({1, 0, 0, 0, 2, 0});  // two descriptors
  EXPECT_TRUE(refused());
  connect({});
  raw({1, 0, 0, 0, 1, 0});  // one, which does not come
  EXPECT_TRUE(refused());
}

TEST_F(ChannelTest, DescriptorsThatNobodyAskedForAreAnEnd) {
  std::array<int, 3> same{1, 1, 1};
  iovec part{same.data(), 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof same)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof same);
  std::memcpy(CMSG_DATA(header), same.data(), sizeof same);
  Status end;
  for (int i = 0; i < 5 && end.ok(); ++i) {
    ASSERT_EQ(::sendmsg(raw_.get(), &message, 0), 1);
    const auto received = a_->receive(millis(10));
    if (!received.ok()) end = received.error();
  }
  EXPECT_EQ(end.error().code, ErrorCode::kCorrupt);
}

TEST_F(ChannelTest, OnlyConnectionsAreTaken) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const FileDescriptor other(ends[1]);
  EXPECT_EQ(Channel::open(FileDescriptor(ends[0])).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Channel::open(FileDescriptor(-1)).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ChannelTest, AWaitIsEndedFromAnotherThread) {
  std::thread waker([&] { a_->wake(); });
  const auto received = a_->receive(seconds(30));
  EXPECT_TRUE(received.ok() && !*received);
  waker.join();
}

// As of a process that was killed and whose descriptors the system has not closed yet.
TEST_F(ChannelTest, ASideWhoseWitnessEndsIsGoneOnceAllIsRead) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  a_->watch(FileDescriptor(ends[0]));
  const auto nothing = a_->receive(millis(10));
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->has_value());
  const std::size_t sizes[] = {100, 50'000, 3};  // the socket has room for them together
  for (const std::size_t size : sizes) ASSERT_TRUE(b_->send(bytes_of(size, size)).ok());
  ::close(ends[1]);
  for (const std::size_t size : sizes) EXPECT_EQ(await(*a_).message, bytes_of(size, size));
  const auto gone = a_->receive(seconds(5));
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace causeway::worker::channel_test
