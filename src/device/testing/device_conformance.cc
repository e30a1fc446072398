#include "device/testing/device_conformance.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "device/testing/conformance_parts.h"

namespace causeway::device::testing {
ConformanceBackend conformance(std::string name, decltype(ConformanceBackend::make) make) {
  link_semaphore_conformance();
  return {std::move(name), make};
}

std::string conformance_name(const ::testing::TestParamInfo<ConformanceBackend>& info) {
  return info.param.name;
}

void DeviceConformance::SetUp() {
  auto made = GetParam().make(clock_, memory_);
  if (!made.ok()) GTEST_SKIP() << made.error().message;
  machine_ = std::move(made).value();
  region_ = memory_.allocate({.name = "test", .bytes = kRegion}).value();
  host_ = memory_.resolve({region_, Bytes(0)}, kRegion);
  for (int d = 0; d < std::min(2, machine_->physical_devices()); ++d) {
    devices_.push_back(machine_
                           ->open({.name = "d" + std::to_string(d),
                                   .physical_device = d,
                                   .arena_bytes = mib(8) + kib(3)})
                           .value());
    extents_.push_back(devices_.back()->arena().allocate(4, Arena::End::kLow).value());
  }
}

void DeviceConformance::TearDown() {
  extents_.clear();
  devices_.clear();
  machine_.reset();
}

std::unique_ptr<Stream> DeviceConformance::stream(int device) {
  return devices_[static_cast<std::size_t>(device)]->make_stream("s").value();
}

std::unique_ptr<Event> DeviceConformance::event() { return devices_[0]->make_event().value(); }

std::unique_ptr<Semaphore> DeviceConformance::semaphore(int device) {
  return devices_[static_cast<std::size_t>(device)]->make_semaphore().value();
}

MemoryAddress DeviceConformance::host(Bytes offset) const {
  return MemoryAddress::in_host({region_, offset});
}

MemoryAddress DeviceConformance::arena(Bytes offset, int device) const {
  return MemoryAddress::in_arena(devices_[static_cast<std::size_t>(device)]->id(), offset);
}

Status DeviceConformance::copy(Stream& on, const Copy& copy) {
  return on.copy({&copy, 1}, CopyPriority::kStep);
}

std::vector<std::byte> DeviceConformance::read(Bytes offset, Bytes bytes, int device) {
  const RegionId region = memory_.allocate({.name = "read", .bytes = bytes}).value();
  {
    const auto s = stream(device);
    EXPECT_TRUE(
        copy(*s, {MemoryAddress::in_host({region, Bytes(0)}), arena(offset, device), bytes}).ok());
    EXPECT_TRUE(s->synchronize(kPatience).ok());
  }
  const auto seen = memory_.resolve({region, Bytes(0)}, bytes);
  std::vector<std::byte> result(seen.begin(), seen.end());
  EXPECT_TRUE(memory_.release(region).ok());
  return result;
}

bool DeviceConformance::has_peers() const {
  return devices_.size() > 1 && devices_[0]->capabilities().peer_copies;
}

TEST_P(DeviceConformance, BatchesCopyBetweenAllMemories) {
  Random random(3);
  fill(host_, random);
  const int far = has_peers() ? 1 : 0;
  const Bytes away = far == 1 ? Bytes(0) : mib(4);
  std::vector<Copy> in, across, back;
  for (std::int64_t i = 0; i < 64; ++i) {  // scattered: piece i lands at 63 - i
    in.push_back({arena(kib(64) * (63 - i)), host(kib(64) * i), kib(64)});
    across.push_back({arena(away + kib(64) * i, far), arena(kib(64) * i), kib(64)});
    back.push_back({host(mib(4) + kib(64) * i), arena(away + kib(64) * (63 - i), far), kib(64)});
  }
  const auto s = stream();
  ASSERT_TRUE(s->copy(in, CopyPriority::kKvIn).ok());
  ASSERT_TRUE(s->copy(across, CopyPriority::kPromotion).ok());
  ASSERT_TRUE(s->copy(back, CopyPriority::kTwin).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(std::memcmp(host_.data(), host_.data() + (4 << 20), 4 << 20), 0);
}

TEST_P(DeviceConformance, RandomCopiesBothWaysKeepEveryByte) {
  Random random(11);
  std::vector<std::byte> mirror(to_size(mib(4)));  // what the arena's first half must hold
  const auto in = stream();
  const auto out = stream();
  const auto arrived = event();
  for (int round = 0; round < 20; ++round) {
    fill(host_.first(to_size(mib(4))), random);
    std::vector<Copy> batch;
    const std::int64_t count = random.chance(0.3) ? 1 : random.between(2, 200);
    for (std::int64_t i = 0; i < count; ++i) {  // disjoint targets, any sources, any alignment
      const Bytes slot = Bytes(mib(4).count / count) * i;
      const Bytes size(random.between(0, mib(4).count / count));
      const Bytes source(random.between(0, (mib(4) - size).count));
      batch.push_back({arena(slot), host(source), size});
      std::memcpy(mirror.data() + slot.count, host_.data() + source.count, to_size(size));
    }
    ASSERT_TRUE(in->copy(batch, CopyPriority::kKvIn).ok());
    ASSERT_TRUE(in->record(*arrived).ok());
    ASSERT_TRUE(out->wait(*arrived).ok());
    ASSERT_TRUE(copy(*out, {host(mib(4)), arena(Bytes(0)), mib(4)}).ok());
    ASSERT_TRUE(out->synchronize(kPatience).ok());
    ASSERT_EQ(std::memcmp(host_.data() + mib(4).count, mirror.data(), mirror.size()), 0)
        << "round " << round;
  }
}

TEST_P(DeviceConformance, WorkRunsInOrderAndEventsOrderStreams) {
  const auto a = stream();
  const auto b = stream();
  const auto ready = event();
  EXPECT_TRUE(ready->done().value());  // never recorded: nothing to wait for
  EXPECT_TRUE(ready->wait(Nanos(0)).ok());
  EXPECT_EQ(ready->completed_at().error().code, ErrorCode::kUnavailable);
  std::vector<int> order;  // unguarded: the events are what orders it
  Door door;
  ASSERT_TRUE(a->run([&]() -> Status {
                 CAUSEWAY_TRY(door.pass());
                 order.push_back(1);
                 return {};
               }).ok());
  ASSERT_TRUE(a->record(*ready).ok());
  ASSERT_TRUE(b->wait(*ready).ok());
  ASSERT_TRUE(b->run([&]() -> Status {
                 order.push_back(2);
                 return {};
               }).ok());
  EXPECT_FALSE(ready->done().value());
  EXPECT_EQ(ready->completed_at().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(ready->wait(millis(1)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(b->synchronize(millis(1)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(a->record(*ready).error().code, ErrorCode::kInvalidArgument);  // not done yet
  door.open();
  ASSERT_TRUE(b->synchronize(kPatience).ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_TRUE(ready->wait(Nanos(0)).ok());
  const Nanos completed = ready->completed_at().value();
  EXPECT_LE(completed, clock_.now());
}

TEST_P(DeviceConformance, CopiesAndWorkTakeTurns) {
  Random random(7);
  const auto s = stream();
  std::vector<std::byte> sent(to_size(kib(256)));
  int wrong = 0;
  for (int round = 0; round < 10; ++round) {
    fill(sent, random);
    ASSERT_TRUE(s->run([&, sent]() -> Status {
                   std::memcpy(host_.data(), sent.data(), sent.size());
                   return {};
                 }).ok());
    ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(Bytes(0)), kib(256)}).ok());
    ASSERT_TRUE(s->run([&]() -> Status {
                   std::memset(host_.data(), 0, to_size(kib(256)));
                   return {};
                 }).ok());
    ASSERT_TRUE(copy(*s, {host(mib(1)), arena(Bytes(0)), kib(256)}).ok());
    ASSERT_TRUE(s->run([&, sent]() -> Status {
                   wrong += std::memcmp(host_.data() + mib(1).count, sent.data(), sent.size()) != 0;
                   return {};
                 }).ok());
  }
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(wrong, 0);
  // And back to plain copies.
  ASSERT_TRUE(copy(*s, {host(mib(2)), arena(Bytes(0)), kib(256)}).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(std::memcmp(host_.data() + mib(2).count, sent.data(), sent.size()), 0);
}

TEST_P(DeviceConformance, MarkedCopiesAreCopiesAndTheirMark) {
  Random random(11);
  fill(host_, random);
  const auto s = stream();
  for (const std::size_t count : {1, 3}) {
    const auto mark = devices_[0]->make_mark().value();
    std::vector<Copy> copies;
    for (std::size_t i = 0; i < count; ++i) {
      const Bytes at = kib(8) * static_cast<std::int64_t>(i);
      copies.push_back({arena(at), host(at), kib(4)});
    }
    for (const bool behind_work : {false, true}) {
      fill(host_, random);  // otherwise an earlier round's bytes would pass
      Door door;
      if (behind_work) {
        ASSERT_TRUE(s->run([&] { return door.pass(); }).ok());
      }
      ASSERT_TRUE(s->copy_marked(copies, CopyPriority::kStep, *mark).ok());
      if (behind_work) {
        EXPECT_FALSE(mark->done().value());
        EXPECT_FALSE(mark->spin(micros(100)).value());
        EXPECT_EQ(s->copy_marked(copies, CopyPriority::kStep, *mark).error().code,
                  ErrorCode::kInvalidArgument);  // its last record is not done
        door.open();
      }
      const bool spun = mark->spin(kPatience).value();
      EXPECT_TRUE(spun || behind_work);  // what has not begun may be left early
      ASSERT_TRUE(mark->wait(kPatience).ok());
      for (const Copy& copy : copies) {
        const auto sent = host_.subspan(to_size(copy.source.offset), to_size(kib(4)));
        const auto seen = read(copy.target.offset, kib(4));
        EXPECT_TRUE(std::equal(sent.begin(), sent.end(), seen.begin(), seen.end()));
      }
    }
    // A copy that is refused leaves the event and the stream as they were.
    const Copy bad{arena(mib(8)), host(Bytes(0)), kib(1)};
    EXPECT_EQ(s->copy_marked({&bad, 1}, CopyPriority::kStep, *mark).error().code,
              ErrorCode::kInvalidArgument);
    EXPECT_TRUE(mark->done().value());
  }
  const auto failed = event();
  ASSERT_TRUE(s->run([]() -> Status { return corrupt("planted"); }).ok());
  const Copy one{arena(mib(1)), host(Bytes(0)), kib(4)};
  ASSERT_TRUE(s->copy_marked({&one, 1}, CopyPriority::kStep, *failed).ok());
  EXPECT_EQ(failed->wait(kPatience).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(failed->spin(kPatience).error().code, ErrorCode::kCorrupt);
  // A stream that failed long ago reports that by the event, too.
  EXPECT_EQ(s->synchronize(kPatience).error().code, ErrorCode::kCorrupt);
  const auto later = event();
  ASSERT_TRUE(s->copy_marked({&one, 1}, CopyPriority::kStep, *later).ok());
  EXPECT_EQ(later->wait(kPatience).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read(mib(1), kib(4)), std::vector<std::byte>(to_size(kib(4))));
}

TEST_P(DeviceConformance, FailureSticksAndTravelsByEvents) {
  const auto a = stream();
  const auto b = stream();
  const auto done = event();
  std::fill(host_.begin(), host_.end(), std::byte{9});
  std::atomic<int> ran{0};
  const auto count = [&]() -> Status {
    ++ran;
    return {};
  };
  ASSERT_TRUE(a->run([]() -> Status { return corrupt("planted"); }).ok());
  ASSERT_TRUE(a->run(count).ok());
  ASSERT_TRUE(copy(*a, {arena(Bytes(0)), host(Bytes(0)), mib(1)}).ok());
  ASSERT_TRUE(a->record(*done).ok());
  ASSERT_TRUE(b->wait(*done).ok());
  ASSERT_TRUE(b->run(count).ok());
  ASSERT_TRUE(copy(*b, {arena(mib(1)), host(Bytes(0)), mib(1)}).ok());
  for (Stream* s : {a.get(), b.get(), a.get()}) {
    const Status status = s->synchronize(kPatience);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(status.error().message.find("planted"), std::string::npos);
  }
  EXPECT_EQ(done->wait(kPatience).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(done->done().error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(done->completed_at().error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(ran.load(), 0);
  EXPECT_EQ(read(Bytes(0), mib(2)), std::vector<std::byte>(to_size(mib(2))));  // nothing copied
  const auto c = stream();  // a stream that waits for an event that failed long ago
  ASSERT_TRUE(c->wait(*done).ok());
  EXPECT_EQ(c->synchronize(kPatience).error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(devices_[0]->health().ok());
}

TEST_P(DeviceConformance, BadBatchesAreRefusedWhole) {
  const auto s = stream();
  const std::vector<Copy> half_bad = {{arena(Bytes(0)), host(Bytes(0)), kib(1)},
                                      {arena(mib(8)), host(Bytes(0)), kib(1)}};
  host_[0] = std::byte{1};
  EXPECT_EQ(s->copy(half_bad, CopyPriority::kStep).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(copy(*s, {arena(mib(8) - Bytes(1)), host(Bytes(0)), Bytes(2)}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(copy(*s, {MemoryAddress::in_arena(DeviceId(77), Bytes(0)), host(Bytes(0)), Bytes(1)})
                .error()
                .code,
            ErrorCode::kInvalidArgument);
  const auto most = static_cast<std::size_t>(devices_[0]->capabilities().copies_max);
  const std::vector<Copy> many(most + 1, {arena(Bytes(64)), host(Bytes(64)), Bytes(1)});
  EXPECT_EQ(s->copy(many, CopyPriority::kStep).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(s->copy({}, CopyPriority::kStep).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(read(Bytes(0), Bytes(1))[0], std::byte{0});
}

TEST_P(DeviceConformance, TheLargestBatchWorks) {
  Random random(5);
  fill(host_, random);
  const auto s = stream();
  std::vector<Copy> batch;
  for (std::int64_t i = 0; i < devices_[0]->capabilities().copies_max; ++i) {
    batch.push_back({arena(kib(1) * (4095 - i)), host(kib(1) * i), Bytes(random.between(0, 1024))});
  }
  ASSERT_TRUE(s->copy(batch, CopyPriority::kKvIn).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  const auto seen = read(Bytes(0), mib(4));
  for (const Copy& piece : batch) {
    ASSERT_EQ(std::memcmp(seen.data() + piece.target.offset.count,
                          host_.data() + piece.source.offset.count, to_size(piece.bytes)),
              0);
  }
}

TEST_P(DeviceConformance, EventsMayGoWhileWorkMentionsThem) {
  const auto a = stream();
  const auto b = stream();
  Door door;
  ASSERT_TRUE(a->run([&] { return door.pass(); }).ok());
  {
    const auto passing = event();
    ASSERT_TRUE(a->record(*passing).ok());
    ASSERT_TRUE(b->wait(*passing).ok());
  }
  EXPECT_EQ(b->synchronize(millis(5)).error().code, ErrorCode::kDeadlineExceeded);
  door.open();
  EXPECT_TRUE(b->synchronize(kPatience).ok());
}

TEST_P(DeviceConformance, EventsAreRecordedAgainAndTellTheTime) {
  const auto s = stream();
  const auto mark = event();
  Nanos last = clock_.now();
  for (int round = 0; round < 50; ++round) {
    const Nanos before = clock_.now();
    ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(Bytes(0)), mib(1)}).ok());
    ASSERT_TRUE(s->record(*mark).ok());
    ASSERT_TRUE(mark->wait(kPatience).ok());
    const Nanos at = mark->completed_at().value();
    EXPECT_EQ(mark->completed_at().value(), at);
    EXPECT_LE(at, clock_.now());
    // Another clock may be the source: half a millisecond covers relating the two.
    EXPECT_GE(at, before - micros(500));
    EXPECT_GE(at, last - micros(500));
    last = at;
  }
}

TEST_P(DeviceConformance, DestroyingAStreamCancelsWhatIsLeft) {
  std::fill(host_.begin(), host_.end(), std::byte{7});
  const auto first = event();
  const auto last = event();
  auto s = stream();
  const auto other = stream();
  Door door;
  ASSERT_TRUE(s->run([&] { return door.pass(); }).ok());
  for (int i = 0; i < 200; ++i) {  // enough to be under way when the stream goes
    ASSERT_TRUE(s->run([]() -> Status {
                   std::mutex mutex;
                   std::unique_lock lock(mutex);
                   std::condition_variable().wait_for(lock, std::chrono::milliseconds(5));
                   return {};
                 }).ok());
    if (i == 100) {
      ASSERT_TRUE(s->record(*first).ok());
    }
  }
  ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(Bytes(0)), mib(1)}).ok());
  ASSERT_TRUE(s->record(*last).ok());
  ASSERT_TRUE(other->wait(*last).ok());
  door.wait_for_guest();
  door.open();
  s.reset();
  EXPECT_EQ(last->wait(kPatience).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(other->synchronize(kPatience).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(read(Bytes(0), Bytes(1))[0], std::byte{0});
}

TEST_P(DeviceConformance, DestroyingAStreamWithCopiesQueuedLeavesMemoryAlone) {
  for (int round = 0; round < 10; ++round) {
    auto extra = devices_[0]->make_stream("short-lived").value();
    const auto mark = event();
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(copy(*extra, {arena(Bytes(0)), host(Bytes(0)), mib(8)}).ok());
      ASSERT_TRUE(copy(*extra, {host(Bytes(0)), arena(Bytes(0)), mib(8)}).ok());
    }
    ASSERT_TRUE(extra->record(*mark).ok());
    extra.reset();
    const Status over = mark->wait(kPatience);
    EXPECT_TRUE(over.ok() || over.error().code == ErrorCode::kCancelled);
    // Nothing writes any more, so this stays.
    std::fill(host_.begin(), host_.end(), static_cast<std::byte>(round));
    const auto s = stream();
    ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(Bytes(0)), kib(4)}).ok());
    ASSERT_TRUE(s->synchronize(kPatience).ok());
    EXPECT_EQ(host_[100], static_cast<std::byte>(round));
    EXPECT_EQ(read(Bytes(0), kib(4))[100], static_cast<std::byte>(round));
  }
}

TEST_P(DeviceConformance, SlicesShareTheDeviceNotTheArena) {
  const int half = std::max(1, devices_[0]->capabilities().processors / 2);
  const auto part =
      machine_->open({.name = "part", .processors = half, .arena_bytes = mib(2)}).value();
  EXPECT_NE(part->id(), devices_[0]->id());
  EXPECT_EQ(part->capabilities().arena_bytes, mib(2));
  EXPECT_GE(part->capabilities().processors, 1);
  EXPECT_LE(part->capabilities().processors, half);
  EXPECT_EQ(devices_[0]->capabilities().arena_bytes, mib(8));  // whole extents
  EXPECT_NE(part->arena().base(), devices_[0]->arena().base());
  const MemoryAddress here = MemoryAddress::in_arena(part->id(), Bytes(0));
  EXPECT_EQ(here.kind(part->id()), MemoryKind::kDevice);
  EXPECT_EQ(here.kind(devices_[0]->id()), MemoryKind::kPeer);
  EXPECT_EQ(host(Bytes(0)).kind(part->id()), MemoryKind::kHost);
  // Copies reach from one slice into the other, and work runs in both.
  const Extents extent = part->arena().allocate(1, Arena::End::kHigh).value();
  Random random(2);
  fill(host_, random);
  const auto s = part->make_stream("s").value();
  ASSERT_TRUE(copy(*s, {here, host(Bytes(0)), mib(1)}).ok());
  ASSERT_TRUE(copy(*s, {arena(mib(3)), here, mib(1)}).ok());
  bool ran = false;
  ASSERT_TRUE(s->run([&]() -> Status {
                 ran = true;
                 return {};
               }).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_TRUE(ran);
  const auto seen = read(mib(3), mib(1));
  EXPECT_EQ(std::memcmp(seen.data(), host_.data(), seen.size()), 0);
}

TEST_P(DeviceConformance, BadSlicesAreNamed) {
  EXPECT_EQ(
      machine_->open({.name = "x", .physical_device = machine_->physical_devices()}).error().code,
      ErrorCode::kNotFound);
  for (const int processors : {-1, devices_[0]->capabilities().processors + 1}) {
    const auto opened = machine_->open({.name = "thin", .processors = processors});
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(opened.error().message.find("thin"), std::string::npos);
  }
  EXPECT_FALSE(machine_->open({.name = "x", .arena_bytes = Bytes(-1)}).ok());
  EXPECT_FALSE(machine_->open({.name = "x", .arena_bytes = Bytes(std::int64_t{1} << 60)}).ok());
}

TEST_P(DeviceConformance, ArenasChurn) {
  const auto device =
      machine_->open({.name = "churn", .arena_bytes = kConformanceExtent * 24}).value();
  Arena& arena = device->arena();
  const auto s = device->make_stream("s").value();
  struct Held {
    Extents extents;
    std::byte mark;
  };
  std::vector<Held> held;
  Random random(17);
  for (int round = 0; round < 120; ++round) {
    if (!held.empty() && random.chance(0.45)) {
      const auto which = static_cast<std::size_t>(random.below(std::ssize(held)));
      std::swap(held[which], held.back());
      // The written bytes are still there, and then are removed.
      const Copy back{host(Bytes(0)),
                      MemoryAddress::in_arena(device->id(), held.back().extents.offset()), kib(4)};
      ASSERT_TRUE(copy(*s, back).ok());
      ASSERT_TRUE(s->synchronize(kPatience).ok());
      ASSERT_EQ(host_[4095], held.back().mark);
      held.pop_back();
      continue;
    }
    const auto end = random.chance(0.5) ? Arena::End::kLow : Arena::End::kHigh;
    auto extents = arena.allocate(random.between(1, 4), end);
    if (!extents.ok()) {
      EXPECT_EQ(extents.error().code, ErrorCode::kResourceExhausted);
      continue;
    }
    const MemoryAddress at = MemoryAddress::in_arena(device->id(), extents->offset());
    std::fill_n(host_.begin(), 4096, std::byte{0xFF});
    ASSERT_TRUE(copy(*s, {host(Bytes(0)), at, kib(4)}).ok());
    ASSERT_TRUE(s->synchronize(kPatience).ok());
    ASSERT_EQ(host_[0], std::byte{0});  // new memory is zeroed
    ASSERT_EQ(host_[4095], std::byte{0});
    const auto mark = static_cast<std::byte>(random.between(1, 255));
    std::fill_n(host_.begin(), 4096, mark);
    ASSERT_TRUE(copy(*s, {at, host(Bytes(0)), kib(4)}).ok());
    ASSERT_TRUE(s->synchronize(kPatience).ok());
    held.push_back({std::move(extents).value(), mark});
  }
  held.clear();
  EXPECT_EQ(arena.free_extents(), arena.extents());
}

// Memory comes and goes behind some extents of a range while copies use others.
TEST_P(DeviceConformance, RangesChurnBesideCopies) {
  const auto device =
      machine_->open({.name = "ranges", .arena_bytes = kConformanceExtent * 1024}).value();
  AddressRange range = device->arena().reserve(24).value();
  const auto at = [&](std::int64_t extent) {
    return MemoryAddress::in_arena(device->id(), range.offset() + kConformanceExtent * extent);
  };
  const auto s = device->make_stream("s").value();
  EXPECT_EQ(copy(*s, {at(10), host(Bytes(0)), kib(4)}).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(range.commit(8, 2).ok());
  std::atomic<bool> stop{false};
  std::thread mapper([&] {
    Random random(29);
    while (!stop.load()) {
      const std::int64_t first = random.chance(0.5) ? 0 : 10;
      const std::int64_t count = random.between(1, 8);
      EXPECT_TRUE(range.commit(first, count).ok());
      EXPECT_TRUE(range.committed(first, count));
      range.decommit(first, count);
    }
  });
  Random random(31);
  for (int round = 0; round < rounds(40); ++round) {
    fill(host_.first(to_size(mib(4))), random);
    EXPECT_TRUE(copy(*s, {at(8), host(Bytes(0)), mib(4)}).ok());
    EXPECT_TRUE(copy(*s, {host(mib(4)), at(8), mib(4)}).ok());
    EXPECT_TRUE(s->synchronize(kPatience).ok());
    EXPECT_EQ(std::memcmp(host_.data(), host_.data() + mib(4).count, to_size(mib(4))), 0);
  }
  stop.store(true);
  mapper.join();
  EXPECT_EQ(copy(*s, {at(10), host(Bytes(0)), kib(4)}).error().code, ErrorCode::kInvalidArgument);
  range.decommit(8, 1);
  EXPECT_EQ(copy(*s, {at(8), host(Bytes(0)), mib(4)}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(copy(*s, {at(9), host(Bytes(0)), mib(2)}).ok());
  EXPECT_TRUE(s->synchronize(kPatience).ok());
}

// What a copy writes by one address a later one reads by the other, even after memory of the range
// has come and gone.
TEST_P(DeviceConformance, AliasesShowTheSameBytes) {
  const auto device =
      machine_->open({.name = "aliases", .arena_bytes = kConformanceExtent * 1024}).value();
  AddressRange range = device->arena().reserve(8).value();
  const auto at = [&](std::int64_t extent) {
    return MemoryAddress::in_arena(device->id(), range.offset() + kConformanceExtent * extent);
  };
  const auto s = device->make_stream("s").value();
  const Bytes bytes = std::min(kConformanceExtent, mib(4));
  Random random(37);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(range.commit(6, 2).ok());
    ASSERT_TRUE(range.alias(0, 6, 2).ok());
    ASSERT_TRUE(range.alias(3, 6, 1).ok());
    EXPECT_EQ(device->arena().memory_taken(), kConformanceExtent * 2);
    for (const std::int64_t written : {0, 3, 6}) {
      fill(host_.first(to_size(bytes)), random);
      EXPECT_TRUE(copy(*s, {at(written), host(Bytes(0)), bytes}).ok());
      for (const std::int64_t read : {0, 3, 6}) {
        EXPECT_TRUE(copy(*s, {host(mib(4)), at(read), bytes}).ok());
        EXPECT_TRUE(s->synchronize(kPatience).ok());
        EXPECT_EQ(std::memcmp(host_.data(), host_.data() + mib(4).count, to_size(bytes)), 0);
      }
    }
    EXPECT_TRUE(copy(*s, {at(7), host(Bytes(0)), bytes}).ok());
    EXPECT_TRUE(copy(*s, {host(mib(4)), at(1), bytes}).ok());
    EXPECT_TRUE(s->synchronize(kPatience).ok());
    EXPECT_EQ(std::memcmp(host_.data(), host_.data() + mib(4).count, to_size(bytes)), 0);
    range.decommit(3, 1);
    range.decommit(0, 2);
    EXPECT_FALSE(copy(*s, {host(mib(4)), at(1), bytes}).ok());
    range.decommit(6, 2);
  }
}

TEST_P(DeviceConformance, ReleasedRegionsMayBeReplaced) {
  const auto s = stream();
  Random random(23);
  for (int round = 0; round < 8; ++round) {
    const RegionId region = memory_.allocate({.name = "passing", .bytes = mib(2)}).value();
    const auto bytes = memory_.resolve({region, Bytes(0)}, mib(2));
    fill(bytes, random);
    ASSERT_TRUE(
        copy(*s, {arena(Bytes(0)), MemoryAddress::in_host({region, Bytes(0)}), mib(2)}).ok());
    ASSERT_TRUE(s->synchronize(kPatience).ok());
    const auto seen = read(Bytes(0), mib(2));
    EXPECT_EQ(std::memcmp(seen.data(), bytes.data(), seen.size()), 0);
    ASSERT_TRUE(memory_.release(region).ok());
  }
}

// Many threads, streams and events at once; what arrives must be what was sent.
TEST_P(DeviceConformance, StressKeepsEveryByte) {
  const int far = has_peers() ? 1 : 0;
  constexpr int kWorkers = 4;
  std::vector<std::thread> workers;
  for (int w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      Random random(static_cast<std::uint64_t>(w));
      const Bytes mine = mib(2) * w;  // of every memory; one half is sent, the other received
      for (int round = 0; round < 12; ++round) {
        const auto in = stream(0);
        const auto out = stream(far);
        const auto arrived = event();
        const Bytes size(random.between(1, 1 << 20));
        fill(host_.subspan(to_size(mine), to_size(size)), random);
        EXPECT_TRUE(copy(*in, {arena(mine), host(mine), size}).ok());
        if (random.chance(0.3)) {
          EXPECT_TRUE(in->run([]() -> Status { return {}; }).ok());
        }
        EXPECT_TRUE(copy(*in, {arena(mine + mib(1), far), arena(mine), size}).ok());
        EXPECT_TRUE(in->record(*arrived).ok());
        EXPECT_TRUE(out->wait(*arrived).ok());
        EXPECT_TRUE(copy(*out, {host(mine + mib(1)), arena(mine + mib(1), far), size}).ok());
        EXPECT_TRUE(out->synchronize(kPatience).ok());
        EXPECT_EQ(std::memcmp(host_.data() + mine.count, host_.data() + mine.count + (1 << 20),
                              to_size(size)),
                  0);
      }
    });
  }
  for (auto& worker : workers) worker.join();
}

}  // namespace causeway::device::testing
