// One client and one session: QEMU's start-up, every reply rule, every refusal.
#include "vfio_user/session.h"

#include <cerrno>
#include <sys/eventfd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "support/manual_clock.h"
#include "vfio_user/fake_handler.h"
#include "vfio_user/raw_peer.h"

namespace pvrdma::vfio_user {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SessionTest : public testing::Test {
 protected:
  SocketPair pair_;
  RawPeer peer_{std::move(pair_.theirs)};
  FakeHandler device_;
  std::optional<Session> session_{std::in_place, std::move(pair_.ours), device_, "test"};

  void SetUp() override {
    peer_.send(qemu_version());
    ASSERT_EQ(run(), "");
    const auto reply = peer_.receive();
    ASSERT_TRUE(reply);
    ASSERT_THAT(device_.take_calls(), ElementsAre("connected"));
  }

  // Runs the session while there is work. Returns the sentence with which it ended, or nothing.
  std::string run() {
    while (true) {
      const auto worked = session_->run();
      if (!worked) return worked.error().message;
      if (!*worked) return "";
    }
  }

  RawReply call(const Bytes& request, const std::vector<int>& fds = {}) {
    EXPECT_TRUE(peer_.send(request, fds));
    EXPECT_EQ(run(), "");
    auto reply = peer_.receive();
    EXPECT_TRUE(reply);
    if (!reply) return {};
    const auto asked = read<wire::Header>(request);
    EXPECT_EQ(reply->header.id, asked.id);
    EXPECT_EQ(reply->header.command, asked.command);
    EXPECT_TRUE(peer_.nothing_to_receive());
    return std::move(*reply);
  }

  void expect_done(const RawReply& reply, std::size_t payload_bytes) {
    EXPECT_EQ(reply.header.flags, kFlagTypeReply);
    EXPECT_EQ(reply.header.error, 0u);
    EXPECT_EQ(reply.payload.size(), payload_bytes);
  }
  void expect_refused(const RawReply& reply, int code) {
    EXPECT_EQ(reply.header.flags, kErrorReply);
    EXPECT_EQ(reply.header.error, static_cast<std::uint32_t>(code));
    EXPECT_THAT(reply.payload, IsEmpty());
  }

  // Makes a new session in its initial state.
  void start_anew() {
    SocketPair pair;
    peer_ = RawPeer(std::move(pair.theirs));
    if (session_->established()) device_.disconnected("test");
    session_.emplace(std::move(pair.ours), device_, "test");
    device_.calls.clear();
  }
};

TEST_F(SessionTest, VersionReplyIsNotLargerThanTheRequest) {
  start_anew();
  const auto reply = call(qemu_version());
  EXPECT_LE(reply.header.size_bytes, 214u);
  const auto version = decode_version(reply.payload);
  ASSERT_TRUE(version);
  EXPECT_EQ(version->major, 0);
  EXPECT_EQ(version->minor, 0);
  EXPECT_EQ(version->capabilities.max_data_xfer_size, 1u << 20);

  start_anew();
  expect_done(call(message(0, Command::kVersion, bytes_of(wire::Version{0, 2}))), sizeof(wire::Version));
}

TEST_F(SessionTest, WhatEndsAStreamBeforeVersion) {
  const struct {
    Bytes bytes;
    const char* reason;
  } table[] = {
      {message(0, Command::kGetInfo, bytes_of(wire::DeviceInfo{})),
       "DEVICE_GET_INFO message that comes before VERSION"},
      {message(0, Command{77}), "UNKNOWN message that comes before VERSION"},
      {message(0, Command::kVersion, version_payload("{}", {1, 0})), "asks for version 1.0"},
      {message(0, Command::kVersion), "is shorter"},
      {message(0, Command::kVersion, version_payload("nonsense")), "not a JSON object"},
      {message(0, Command::kVersion, version_payload("{}"), kFlagTypeReply), "is not a command"},
  };
  for (const auto& row : table) {
    start_anew();
    peer_.send(row.bytes);
    EXPECT_THAT(run(), HasSubstr(row.reason));
    EXPECT_FALSE(session_->established());
    EXPECT_THAT(device_.calls, IsEmpty());
  }
}

TEST_F(SessionTest, WhatEndsAStreamLater) {
  const Bytes access = bytes_of(wire::RegionAccess{0, 1, 4});
  const struct {
    Bytes bytes;
    const char* reason;
  } table[] = {
      {qemu_version(), "VERSION message that comes a second time"},
      {message(1, Command::kRegionWrite, access), "REGION_WRITE message that announces more or fewer bytes"},
      {message(1, Command::kRegionWrite, Bytes(8)), "is shorter"},
      {message(1, Command::kRegionRead, Bytes(8)),
       "REGION_READ message that does not have its command's size"},
      {message(1, Command::kRegionRead, access, kFlagTypeReply), "is not a command (flags 0x1)"},
      {message(1, Command::kReset, Bytes(1)), "DEVICE_RESET message"},
      {message(1, Command::kDmaMap, Bytes(31)), "DMA_MAP message"},
      {message(1, Command::kDmaUnmap, Bytes(23)), "DMA_UNMAP message"},
      {message(1, Command::kGetInfo, Bytes(15)), "DEVICE_GET_INFO message that is shorter"},
      {message(1, Command::kGetRegionInfo, Bytes(31)), "DEVICE_GET_REGION_INFO message that is shorter"},
      {message(1, Command::kGetIrqInfo, Bytes(15)), "DEVICE_GET_IRQ_INFO message that is shorter"},
      {message(1, Command::kSetIrqs, Bytes(19)), "DEVICE_SET_IRQS message"},
      {bytes_of(wire::Header{1, Command::kReset, 15, 0, 0}), "a size of 15 bytes"},
      {bytes_of(wire::Header{1, Command::kReset, 0x7fffffff, 0, 0}), "a size of 2147483647 bytes"},
  };
  for (const auto& row : table) {
    start_anew();
    call(qemu_version());
    device_.calls.clear();
    peer_.send(row.bytes);
    EXPECT_THAT(run(), HasSubstr(row.reason));
    EXPECT_THAT(device_.calls, IsEmpty());
    EXPECT_TRUE(peer_.nothing_to_receive());
  }
}

TEST_F(SessionTest, ADescriptorBeforeVersionEndsTheStreamWithTheFirstByte) {
  const Fd eventfd(::eventfd(0, EFD_CLOEXEC));
  for (const std::size_t bytes : {std::size_t{1}, qemu_version().size()}) {
    start_anew();
    const Bytes version = qemu_version();
    peer_.send(std::span(version).first(bytes), {eventfd.get()});
    EXPECT_THAT(run(), HasSubstr("file descriptors before VERSION"));
    EXPECT_FALSE(session_->established());
    EXPECT_THAT(device_.calls, IsEmpty());
  }
}

TEST_F(SessionTest, UnexpectedDescriptorsEndTheStream) {
  const Fd eventfd(::eventfd(0, EFD_CLOEXEC));
  peer_.send(message(1, Command::kReset), {eventfd.get()});
  EXPECT_THAT(run(), HasSubstr("DEVICE_RESET message that carries 1 file descriptors; 0 are possible"));

  start_anew();
  call(qemu_version());
  peer_.send(message(1, Command::kDmaMap, bytes_of(wire::DmaMap{.size = 0x1000})),
             {eventfd.get(), eventfd.get()});
  EXPECT_THAT(run(), HasSubstr("DMA_MAP message that carries 2 file descriptors; 1 are possible"));
}

TEST_F(SessionTest, UnknownCommandsAndFlagsAreRefused) {
  for (const int number : {0, 6, 11, 12, 14, 15, 16, 17, 18, 19, 65535}) {
    expect_refused(call(message(1, static_cast<Command>(number), Bytes(64))), EOPNOTSUPP);
  }
  expect_refused(call(message(1, Command::kReset, {}, 0x40)), EINVAL);
  expect_refused(call(message(1, Command::kReset, {}, kFlagError)), EINVAL);
  EXPECT_THAT(device_.calls, IsEmpty());
}

TEST_F(SessionTest, DeviceInfo) {
  const auto reply = call(message(1, Command::kGetInfo, bytes_of(wire::DeviceInfo{})));
  expect_done(reply, sizeof(wire::DeviceInfo));
  const auto info = read<wire::DeviceInfo>(reply.payload);
  EXPECT_EQ(info.argsz, 16u);
  EXPECT_EQ(info.flags, 3u);
  EXPECT_EQ(info.region_count, 9u);
  EXPECT_EQ(info.irq_index_count, 5u);
}

TEST_F(SessionTest, RegionInfoAsksForMoreRoomThenSendsListAndDescriptor) {
  const auto ask = [&](std::uint32_t region, std::uint32_t argsz) {
    return call(
        message(1, Command::kGetRegionInfo, bytes_of(wire::RegionInfo{.argsz = argsz, .index = region})));
  };
  auto reply = ask(2, 32);
  expect_done(reply, 32);
  EXPECT_THAT(reply.fds, IsEmpty());
  auto info = read<wire::RegionInfo>(reply.payload);
  EXPECT_EQ(info.argsz, 64u);
  EXPECT_EQ(info.flags, 7u);

  reply = ask(2, 64);
  expect_done(reply, 64);
  ASSERT_EQ(reply.fds.size(), 1u);
  info = read<wire::RegionInfo>(reply.payload);
  EXPECT_EQ(info.flags, 15u);
  EXPECT_EQ(info.cap_offset, 32u);
  EXPECT_EQ(info.size, 0x2000u);
  EXPECT_EQ(info.fd_offset, 0x3000u);
  const auto area = read<wire::SparseMmapArea>(reply.payload, 48);
  EXPECT_EQ(area.offset, 0x1000u);
  EXPECT_EQ(area.size, 0x1000u);

  reply = ask(6, 32);
  expect_done(reply, 32);
  EXPECT_EQ(read<wire::RegionInfo>(reply.payload).flags, 1u);
  reply = ask(4, 32);
  expect_done(reply, 32);
  EXPECT_EQ(read<wire::RegionInfo>(reply.payload).size, 0u);
  EXPECT_EQ(read<wire::RegionInfo>(reply.payload).flags, 0u);
  expect_refused(ask(9, 32), EINVAL);
  expect_refused(ask(0, 31), EINVAL);
}

TEST_F(SessionTest, IrqInfo) {
  const auto ask = [&](std::uint32_t index) {
    return call(message(1, Command::kGetIrqInfo, bytes_of(wire::IrqInfo{.index = index})));
  };
  auto reply = ask(2);
  expect_done(reply, sizeof(wire::IrqInfo));
  EXPECT_EQ(read<wire::IrqInfo>(reply.payload).count, 3u);
  EXPECT_EQ(read<wire::IrqInfo>(reply.payload).flags, wire::kIrqEventfd);
  reply = ask(3);
  EXPECT_EQ(read<wire::IrqInfo>(reply.payload).count, 0u);
  expect_refused(ask(5), EINVAL);
}

TEST_F(SessionTest, RegionReadsAndWrites) {
  auto reply = call(message(1, Command::kRegionRead, bytes_of(wire::RegionAccess{0x10, 1, 4})));
  expect_done(reply, 20);
  EXPECT_EQ(read<wire::RegionAccess>(reply.payload).offset, 0x10u);
  EXPECT_EQ(read<std::uint32_t>(reply.payload, 16), 0x13121110u);

  reply = call(
      message(2, Command::kRegionWrite, bytes_of(wire::RegionAccess{0x20, 1, 4}, std::uint32_t{0xdeadbeef})));
  expect_done(reply, 16);
  EXPECT_EQ(read<wire::RegionAccess>(reply.payload).count, 4u);
  EXPECT_EQ(read<std::uint32_t>(device_.last_write), 0xdeadbeefu);
  EXPECT_THAT(device_.take_calls(), ElementsAre("read 1 0x10 4", "write 1 0x20 4"));
}

TEST_F(SessionTest, RegionAccessesOutsideOfWhatTheRegionAllows) {
  const auto write_at = [&](std::uint32_t region, std::uint64_t offset) {
    return call(
        message(1, Command::kRegionWrite, bytes_of(wire::RegionAccess{offset, region, 4}, std::uint32_t{0})));
  };
  const auto read_at = [&](std::uint32_t region, std::uint64_t offset, std::uint32_t count) {
    return call(message(1, Command::kRegionRead, bytes_of(wire::RegionAccess{offset, region, count})));
  };
  expect_refused(write_at(1, 0xffd), EINVAL);
  expect_refused(write_at(3, 0), EINVAL);
  expect_refused(write_at(9, 0), EINVAL);
  expect_refused(write_at(0xffffffff, 0), EINVAL);
  expect_refused(write_at(6, 0), EACCES);
  expect_refused(read_at(7, 0, 257), EINVAL);
  expect_refused(read_at(7, 256, 1), EINVAL);
  expect_refused(read_at(0, 0, (1u << 20) + 1), EINVAL);
  expect_refused(read_at(0, ~std::uint64_t{0}, 1), EINVAL);
  EXPECT_THAT(device_.calls, IsEmpty());
  expect_done(read_at(7, 0, 256), 16 + 256);

  device_.next_result = EIO;
  expect_refused(read_at(7, 0, 4), EIO);
  expect_refused(write_at(7, 0), EIO);
}

TEST_F(SessionTest, PostedMessagesAreNeverAnswered) {
  const Bytes good = bytes_of(wire::RegionAccess{0x20, 1, 4}, std::uint32_t{1});
  const Bytes bad = bytes_of(wire::RegionAccess{0x20, 5, 4}, std::uint32_t{1});
  peer_.send(message(1, Command::kRegionWrite, good, kFlagNoReply));
  peer_.send(message(2, Command::kRegionWrite, bad, kFlagNoReply));
  peer_.send(message(3, Command::kRegionRead, bytes_of(wire::RegionAccess{0, 0, 4}), kFlagNoReply));
  peer_.send(message(4, Command::kReset, {}, kFlagNoReply));
  peer_.send(message(5, Command::kRegionWriteMulti, Bytes(32), kFlagNoReply));
  peer_.send(message(6, Command::kGetInfo, bytes_of(wire::DeviceInfo{}), kFlagNoReply));
  peer_.send(message(7, Command::kReset, {}, kFlagNoReply | 0x80));
  EXPECT_EQ(run(), "");
  EXPECT_TRUE(peer_.nothing_to_receive());
  EXPECT_THAT(device_.take_calls(), ElementsAre("write 1 0x20 4 posted", "read 0 0x0 4", "reset"));

  // The stream is still valid.
  expect_done(call(message(8, Command::kReset)), 0);
}

TEST_F(SessionTest, DmaMapsWithAndWithoutMemory) {
  const Fd memory(::memfd_create("ram", MFD_CLOEXEC));
  const auto map = [&](wire::DmaMap request, const std::vector<int>& fds) {
    return call(message(1, Command::kDmaMap, bytes_of(request)), fds);
  };
  expect_done(map({.flags = 3, .fd_offset = 0x1000, .iova = 0x10000, .size = 0x2000}, {memory.get()}), 0);
  expect_done(map({.flags = 1, .iova = 0xc0000, .size = 0x20000}, {}), 0);
  EXPECT_EQ(device_.fds.size(), 1u);
  expect_refused(map({.flags = 3, .iova = 0x10000}, {memory.get()}), EINVAL);
  device_.next_result = EEXIST;
  expect_refused(map({.flags = 3, .iova = 0x10000, .size = 0x1000}, {memory.get()}), EEXIST);
  EXPECT_THAT(device_.take_calls(),
              ElementsAre("map 0x10000+0x2000 0x1000 rw", "map 0xc0000+0x20000 0x0 r- no RAM",
                          "map 0x10000+0x1000 0x0 rw"));
}

TEST_F(SessionTest, ABurstOfDmaMapsKeepsItsDescriptorsApart) {
  const Fd memory(::memfd_create("ram", MFD_CLOEXEC));
  for (std::uint16_t i = 0; i < 20; ++i) {
    const Bytes request =
        message(i, Command::kDmaMap, bytes_of(wire::DmaMap{.iova = i * 0x1000u, .size = 0x1000}));
    peer_.send(request, i % 3 == 0 ? std::vector<int>{memory.get()} : std::vector<int>{});
  }
  EXPECT_EQ(run(), "");
  const auto calls = device_.take_calls();
  ASSERT_EQ(calls.size(), 20u);
  for (std::uint16_t i = 0; i < 20; ++i) {
    EXPECT_EQ(calls[i], fmt::format("map {:#x}+0x1000 0x0 --{}", i * 0x1000, i % 3 == 0 ? "" : " no RAM"));
    EXPECT_EQ(peer_.receive()->header.id, i);
  }
}

TEST_F(SessionTest, DmaUnmapEchoesTheRequest) {
  const wire::DmaUnmap one{.iova = 0x1000, .size = 0x2000};
  auto reply = call(message(1, Command::kDmaUnmap, bytes_of(one)));
  expect_done(reply, 24);
  EXPECT_EQ(reply.payload, bytes_of(one));
  expect_done(call(message(2, Command::kDmaUnmap, bytes_of(wire::DmaUnmap{.flags = 2}))), 24);
  device_.next_result = ENOENT;
  expect_refused(call(message(1, Command::kDmaUnmap, bytes_of(one))), ENOENT);
  EXPECT_THAT(device_.take_calls(), ElementsAre("unmap 0x1000+0x2000", "unmap all", "unmap 0x1000+0x2000"));
}

TEST_F(SessionTest, InterruptsAsQemuSetsThem) {
  const Fd eventfd(::eventfd(0, EFD_CLOEXEC));
  const auto set = [&](wire::SetIrqs request, const std::vector<int>& fds = {}) {
    request.index = request.index == 0 ? 2 : request.index;
    return call(message(1, Command::kSetIrqs, bytes_of(request)), fds);
  };
  expect_done(set({.flags = 0x24, .count = 1}), 0);
  expect_done(set({.flags = 0x24, .count = 1}, {eventfd.get()}), 0);
  expect_done(set({.flags = 0x24, .start = 1, .count = 2}, {eventfd.get(), eventfd.get()}), 0);
  expect_done(set({.flags = 0x21}), 0);
  EXPECT_THAT(device_.take_calls(), ElementsAre("irq 2.0 unassigned", "irq 2.0 assigned", "irq 2.1 assigned",
                                                "irq 2.2 assigned", "irqs 2 disabled"));
  EXPECT_EQ(device_.fds.size(), 3u);

  expect_refused(set({.flags = 0x24, .start = 3, .count = 1}, {eventfd.get()}), EINVAL);
  expect_refused(set({.flags = 0x24, .start = 2, .count = 2}, {eventfd.get(), eventfd.get()}), EINVAL);
  expect_refused(set({.flags = 0x24, .start = 0xffffffff, .count = 1}), EINVAL);
  expect_refused(set({.flags = 0x24, .start = 1, .count = 0xffffffff}), EINVAL);
  expect_refused(set({.flags = 0x24, .index = 3, .count = 1}, {eventfd.get()}), EINVAL);
  expect_refused(set({.flags = 0x24, .index = 5, .count = 1}, {eventfd.get()}), EINVAL);
  expect_refused(set({.flags = 0x21, .count = 1}), EOPNOTSUPP);
  expect_refused(set({.flags = 0x21, .start = 3, .count = 1}), EINVAL);
  expect_refused(set({.flags = 0x09, .count = 3}), EOPNOTSUPP);
  EXPECT_THAT(device_.calls, IsEmpty());

  device_.next_result = ENOSPC;
  expect_refused(set({.flags = 0x24, .count = 3}), ENOSPC);
  EXPECT_THAT(device_.take_calls(), ElementsAre("irq 2.0 unassigned"));
}

TEST_F(SessionTest, MessagesRunInTheirOrder) {
  Bytes burst;
  for (std::uint16_t i = 0; i < 100; ++i) {
    const Bytes one =
        message(i, i % 2 == 0 ? Command::kReset : Command::kRegionWrite,
                i % 2 == 0 ? Bytes{} : bytes_of(wire::RegionAccess{i * 4u, 1, 4}, std::uint32_t{i}));
    burst.insert(burst.end(), one.begin(), one.end());
  }
  peer_.send(burst);
  EXPECT_EQ(run(), "");
  const auto calls = device_.take_calls();
  ASSERT_EQ(calls.size(), 100u);
  for (std::uint16_t i = 0; i < 100; ++i) {
    EXPECT_EQ(calls[i], i % 2 == 0 ? "reset" : fmt::format("write 1 {:#x} 4", i * 4));
    EXPECT_EQ(peer_.receive()->header.id, i);
  }
}

TEST_F(SessionTest, OneTurnDoesABoundedAmountOfWork) {
  Bytes flood;
  const Bytes one =
      message(1, Command::kRegionWrite, bytes_of(wire::RegionAccess{0, 0, 4}, std::uint32_t{0}), 0x10);
  for (int i = 0; i < 500; ++i) flood.insert(flood.end(), one.begin(), one.end());
  peer_.send(flood);
  ASSERT_TRUE(session_->run());
  EXPECT_LE(device_.take_calls().size(), 64u);
  EXPECT_EQ(run(), "");
}

TEST_F(SessionTest, ABurstOfExpensiveMessagesLeavesTheRestForLaterTurns) {
  const test::ManualClock clock{std::chrono::microseconds(150)};
  SocketPair pair;
  peer_ = RawPeer(std::move(pair.theirs));
  device_.disconnected("test");
  session_.emplace(std::move(pair.ours), device_, "test", SessionSurroundings{.clock = &clock});
  call(qemu_version());
  device_.take_calls();

  Bytes burst;
  for (std::uint16_t i = 0; i < 40; ++i) {
    const Bytes one = message(i, Command::kReset);
    burst.insert(burst.end(), one.begin(), one.end());
  }
  peer_.send(burst);
  std::size_t runs = 0, executed = 0;
  do {
    ASSERT_TRUE(session_->run());
    ++runs;
    const std::size_t now = device_.take_calls().size();
    EXPECT_LE(now, 2u) << "150 us each, 200 us for all";
    EXPECT_GE(now, 1u);
    executed += now;
  } while (session_->has_more());
  EXPECT_EQ(executed, 40u) << "nothing waits for the socket to become readable";
  EXPECT_GE(runs, 20u);
  for (std::uint16_t i = 0; i < 40; ++i) EXPECT_EQ(peer_.receive()->header.id, i);
}

TEST_F(SessionTest, NoMessageIsExecutedWhileTheHandlerIsBusy) {
  device_.busy = true;
  for (std::uint16_t i = 0; i < 2; ++i) ASSERT_TRUE(peer_.send(message(i, Command::kReset)));
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(session_->run());
    EXPECT_TRUE(session_->has_more()) << "it asks for another turn";
    EXPECT_THAT(device_.take_calls(), IsEmpty());
  }
  device_.busy = false;
  EXPECT_EQ(run(), "");
  EXPECT_THAT(device_.take_calls(), ElementsAre("reset", "reset"));
  EXPECT_FALSE(session_->has_more());
}

TEST_F(SessionTest, AClientThatDoesNotReadItsRepliesStopsItselfOnly) {
  device_.max_kept_calls = 0;
  const Bytes request = message(1, Command::kRegionRead, bytes_of(wire::RegionAccess{0, 0, 0x4000}));
  int sent = 0;
  while (!session_->wants_write()) {
    ASSERT_LT(sent, 10'000);
    ASSERT_TRUE(peer_.send(request));
    ++sent;
    ASSERT_EQ(run(), "");
  }
  // Now the session reads no more, but nothing is lost.
  for (int i = 0; i < 5; ++i, ++sent) ASSERT_TRUE(peer_.send(request));
  ASSERT_EQ(run(), "");
  EXPECT_TRUE(session_->wants_write());
  for (int i = 0; i < sent; ++i) {
    const auto reply = [&] {
      while (peer_.nothing_to_receive()) EXPECT_EQ(run(), "");
      EXPECT_EQ(run(), "");
      return peer_.receive();
    }();
    ASSERT_TRUE(reply);
    ASSERT_EQ(reply->payload.size(), 16u + 0x4000u);
  }
  EXPECT_EQ(run(), "");
  EXPECT_FALSE(session_->wants_write());
  EXPECT_TRUE(peer_.nothing_to_receive());
}

TEST_F(SessionTest, MessagesByteByByte) {
  const Bytes request =
      message(1, Command::kRegionWrite, bytes_of(wire::RegionAccess{8, 1, 4}, std::uint32_t{7}));
  for (const std::byte& byte : request) {
    EXPECT_TRUE(peer_.nothing_to_receive());
    peer_.send(std::span(&byte, 1));
    ASSERT_EQ(run(), "");
  }
  EXPECT_EQ(peer_.receive()->header.id, 1);
  EXPECT_THAT(device_.take_calls(), ElementsAre("write 1 0x8 4"));
}

}  // namespace
}  // namespace pvrdma::vfio_user
