// A VMM's use of the protocol's migration and dirty-log messages. (tests/device/migration_test.cc tests them
// over a socket and with traffic.)
#include <algorithm>
#include <cerrno>
#include <gtest/gtest.h>

#include "device/adapter_migration_fixture.h"

namespace pvrdma::device {
namespace {

using abi::Command;
using enum vfio_user::MigrationState;
using test::kSend;

AdapterConfig with_few_objects() {
  AdapterConfig config = test::some_adapter();
  config.limits = verbs::Limits{.max_context = 2,
                                .max_pd = 2,
                                .max_mr = 4,
                                .max_cq = 2,
                                .max_cqe = 1024,
                                .max_qp = 4,
                                .max_qp_wr = 512,
                                .max_user_qp_wr = 16,
                                .max_sge = 4,
                                .max_srq = 1,
                                .max_srq_wr = 16,
                                .gid_table_length = 2};
  return config;
}

TEST_F(AdapterMigrationTest, WhileItIsStoppedNothingChanges) {
  guest_.bring_up();
  guest_.create_pd();
  // More than the ring holds, so that some wait.
  for (int i = 0; i < 515; ++i) guest_.adapter().set_link(i % 2 != 0);
  ASSERT_NE(guest_.adapter().next_deadline(), Instant::never());
  const Bytes ram(guest_.ram().begin(), guest_.ram().end());
  ASSERT_EQ(change({kStop}), 0);
  const Bytes state = guest_.save();
  EXPECT_TRUE(guest_.port.stopped);
  EXPECT_EQ(guest_.adapter().next_deadline(), Instant::never());
  guest_.clock.advance(std::chrono::seconds(1));
  guest_.adapter().set_link(true);
  EXPECT_FALSE(guest_.adapter().run(guest_.clock.now()));
  guest_.adapter().on_time(guest_.clock.now());
  EXPECT_TRUE(std::ranges::equal(guest_.ram(), ram));
  EXPECT_EQ(guest_.adapter().info().link_up, false);
  const std::uint64_t before = ignored();
  guest_.write_register(abi::Register::kCtl, static_cast<std::uint32_t>(abi::Ctl::kReset));
  guest_.write_register(abi::Register::kRequest, 0);
  EXPECT_EQ(guest_.write32(2, 0, kSend | 100), 0);
  EXPECT_EQ(ignored(), before + 3);
  EXPECT_EQ(guest_.write32(7, 0x10, 0x1000), 0) << "its VMM restores the PCI function";
  EXPECT_EQ(guest_.adapter().info().objects.pds, 1u);
  EXPECT_EQ(guest_.adapter().info().device_counters.commands, 1u);
}

TEST_F(AdapterMigrationTest, WhereTheGuestMayGoOnUntoldItsFirstWriteLetsItsAdapter) {
  guest_.bring_up();
  guest_.adapter().outlive_client(true);
  ASSERT_EQ(change({kStop}), 0);
  EXPECT_EQ(guest_.write32(7, 0x10, 0x1000), 0);
  EXPECT_TRUE(guest_.adapter().is_stopped()) << "that is its VMM's";
  const std::uint64_t before = ignored();
  guest_.create_pd();
  EXPECT_FALSE(guest_.adapter().is_stopped());
  EXPECT_FALSE(guest_.port.stopped);
  EXPECT_EQ(guest_.adapter().info().objects.pds, 1u);
  EXPECT_EQ(ignored(), before);
  guest_.adapter().outlive_client(false);
  ASSERT_EQ(change({kStop}), 0);
  EXPECT_EQ(guest_.write32(2, 0, kSend | 100), 0);
  EXPECT_TRUE(guest_.adapter().is_stopped());
}

TEST_F(AdapterMigrationTest, WhatWasLoadedOnTrialIsForgotten) {
  guest_.bring_up();
  guest_.create_pd();
  const Bytes state = guest_.save();
  FakeGuest there(test::some_adapter());
  const Bytes empty = there.save();
  ASSERT_EQ(change(there.adapter(), {kStop}), 0);
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(there.adapter().load_stopped(state)) << "whatever was loaded before";
    EXPECT_EQ(there.adapter().info().objects.pds, 1u);
    there.adapter().unload();
    EXPECT_EQ(there.adapter().info().objects.pds, 0u);
    EXPECT_EQ(there.adapter().info().state, AdapterState::kDetached);
  }
}

TEST_F(AdapterMigrationTest, ItGoesOnWhereItWas) {
  guest_.bring_up();
  ASSERT_EQ(change({kStop, kStopCopy}), 0);
  EXPECT_EQ(read_all(), guest_.save());
  ASSERT_EQ(change({kStop}), 0);
  guest_.adapter().set_link(false);
  guest_.adapter().set_link(true);
  guest_.adapter().set_link(false);
  EXPECT_EQ(async_tail(), 0u);
  for (const auto vector : {abi::Vector::kResponse, abi::Vector::kAsyncEvent, abi::Vector::kNotification})
    guest_.interrupts(vector);
  ASSERT_EQ(change({kRunning}), 0);
  EXPECT_FALSE(guest_.port.stopped);
  EXPECT_EQ(async_tail(), 1u) << "one event: the link is down now";
  EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 0u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kAsyncEvent), 2u) << "the event, and whatever was lost";
  EXPECT_EQ(guest_.interrupts(abi::Vector::kNotification), 1u);
  guest_.create_pd();
}

TEST_F(AdapterMigrationTest, AnotherAdapterGoesOnForIt) {
  guest_.bring_up();
  guest_.create_cq();
  ASSERT_EQ(change({kStop, kStopCopy}), 0);
  const Bytes stream = read_all(7);
  const auto there = guest_.successor();
  there->connected();
  there->set_link(false);
  ASSERT_EQ(change(*there, {kStop}), 0);
  ASSERT_EQ(bring(*there, stream), 0);
  EXPECT_EQ(guest_.save(*there), stream);
  EXPECT_TRUE(there->info().link_up) << "as the guest saw it last";
  ASSERT_EQ(change(*there, {kRunning}), 0);
  EXPECT_FALSE(there->info().link_up) << "as it is here";
  EXPECT_EQ(there->info().objects.cqs, 1u);
}

TEST_F(AdapterMigrationTest, OnlyAnAdapterWithoutADriverTakesAnothersState) {
  guest_.bring_up();
  ASSERT_EQ(change({kStop}), 0);
  EXPECT_EQ(change({kResuming}), EBUSY);
  guest_.adapter().reset();
  EXPECT_EQ(change({kStop, kResuming}), 0);
}

TEST_F(AdapterMigrationTest, AResetEndsItInEachState) {
  using States = std::initializer_list<vfio_user::MigrationState>;
  for (const States states : {States{kStop}, States{kStop, kStopCopy}, States{kStop, kResuming}}) {
    guest_.connect();
    ASSERT_EQ(change(states), 0);
    guest_.adapter().set_link(false);
    guest_.adapter().reset();
    EXPECT_FALSE(guest_.port.stopped);
    EXPECT_FALSE(guest_.adapter().info().link_up);
    Bytes some(100);
    EXPECT_EQ(guest_.adapter().migration_read(some), tl::unexpected(EIO));
    ASSERT_EQ(change(states), 0);
    guest_.adapter().disconnected("the test ends it");
    EXPECT_FALSE(guest_.port.stopped);
    guest_.bring_up();
    guest_.adapter().set_link(true);
    guest_.adapter().disconnected("the test ends it");
  }
}

TEST_F(AdapterMigrationTest, WhoStandsByLeavesThePortAlone) {
  const auto next = guest_.successor();
  next->stand_by();
  next->connected();
  EXPECT_EQ(change(*next, {kStop}), EBUSY);
  EXPECT_FALSE(guest_.port.stopped);
  guest_.bring_up();
  ASSERT_EQ(change({kStop}), 0);
  next->disconnected("the test ends it");
  EXPECT_TRUE(guest_.port.stopped);
  guest_.adapter().stand_by();
  EXPECT_FALSE(guest_.port.stopped);
  EXPECT_EQ(change({kStopCopy}), EBUSY) << "its session believes that it is stopped still";
}

TEST_F(AdapterMigrationTest, WhatItIsAskedForOutOfOrderIsRefused) {
  guest_.connect();
  EXPECT_EQ(change({kStopCopy}), EINVAL);
  EXPECT_EQ(change({kResuming}), EINVAL);
  EXPECT_EQ(change({kPreCopy}), EINVAL);
  EXPECT_EQ(change({kError}), EINVAL);
  EXPECT_FALSE(guest_.port.stopped);
}

class AdapterMigrationBoundTest : public AdapterMigrationTest {
 protected:
  AdapterMigrationBoundTest() : AdapterMigrationTest(with_few_objects()) {}
};

TEST_F(AdapterMigrationBoundTest, WhatIsCutDamagedOrTooLongIsRefusedAndCanBeWrittenAgain) {
  guest_.bring_up();
  guest_.create_pd();
  ASSERT_EQ(change({kStop, kStopCopy}), 0);
  const Bytes stream = read_all();
  const auto there = guest_.successor();
  there->connected();
  ASSERT_EQ(change(*there, {kStop}), 0);
  const Bytes before = guest_.save(*there);
  ASSERT_EQ(change(*there, {kResuming}), 0);
  EXPECT_EQ(change(*there, {kStop}), EINVAL) << "there is nothing";
  for (std::size_t size = 1; size < stream.size(); size += 13)
    ASSERT_EQ(write(*there, std::span(stream).first(size)), EINVAL) << size << " bytes";
  for (std::size_t at = 0; at < stream.size(); at += 11) {
    Bytes damaged = stream;
    damaged[at] ^= std::byte{0x40};
    ASSERT_EQ(write(*there, damaged), EINVAL) << "byte " << at;
  }
  Bytes longer = stream;
  longer.push_back(std::byte{0});
  EXPECT_EQ(write(*there, longer), EINVAL);
  EXPECT_EQ(guest_.save(*there), before);
  EXPECT_TRUE(guest_.port.stopped);
  EXPECT_EQ(write(*there, stream), 0);
  EXPECT_EQ(guest_.save(*there), stream);
}

TEST_F(AdapterMigrationBoundTest, NoMoreIsTakenThanTheLargestStateHas) {
  guest_.connect();
  ASSERT_EQ(change({kStop, kResuming}), 0);
  const Bytes zeros(64 * 1024);
  std::size_t taken = 0;
  int error = 0;
  while (taken < 1u << 20 && (error = guest_.adapter().migration_write(zeros)) == 0) taken += zeros.size();
  EXPECT_EQ(error, ENOSPC);
  EXPECT_EQ(guest_.adapter().migration_write(zeros), ENOSPC);
  EXPECT_GE(taken, 190'000u) << "4 QPs with 64 requests of 4 SGEs, 8192 pages";
  EXPECT_EQ(change({kStop}), EINVAL);
}

struct SomeHost {
  verbs::HostAccount account{TotalBudgets{}};
};

class AdapterMigrationHostTest : private SomeHost, public AdapterMigrationTest {
 protected:
  AdapterMigrationHostTest() : AdapterMigrationTest(on(account)) {}
  static AdapterConfig on(verbs::HostAccount& host) {
    AdapterConfig config = test::some_adapter();
    config.host = &host;
    return config;
  }
  verbs::HostAccount& host() { return account; }
};

TEST_F(AdapterMigrationHostTest, FewOfAHostMoveAtOnce) {
  guest_.bring_up();
  for (std::uint32_t i = 0; i < verbs::HostAccount::kStreamsMax; ++i) ASSERT_TRUE(host().take_stream());
  EXPECT_EQ(change({kStop, kStopCopy}), EBUSY);
  host().give_stream();
  EXPECT_EQ(change({kStopCopy}), 0);
  EXPECT_FALSE(host().take_stream());
  EXPECT_EQ(change({kStop}), 0);
  EXPECT_TRUE(host().take_stream()) << "its place is free again";
}

class AdapterMigrationRateTest : public AdapterMigrationTest {
 protected:
  AdapterMigrationRateTest() : AdapterMigrationTest(slow_adapter()) {}
};

TEST_F(AdapterMigrationRateTest, WhoSavesAgainAndAgainHoldsUpItself) {
  guest_.connect();
  ASSERT_EQ(change({kStop}), 0);
  int rounds = 0;
  while (rounds < 100 && guest_.adapter().held_until() == Instant{}) {
    ASSERT_EQ(change({kStopCopy, kStop}), 0);
    ++rounds;
  }
  EXPECT_LE(rounds, 21);
  guest_.adapter().reset();
  guest_.clock.advance(std::chrono::seconds(10));
  for (rounds = 0; rounds < 100 && guest_.adapter().held_until() == Instant{}; ++rounds) {
    std::uint64_t page_size = 4096;
    ASSERT_EQ(guest_.adapter().log_start(page_size, {}), 0);
    ASSERT_EQ(guest_.adapter().log_stop(), 0);
  }
  EXPECT_LE(rounds, 21);
}

// The guest is stopped meanwhile, so a long save must not take longer because it is long.
TEST_F(AdapterMigrationRateTest, WhatASaveWroteIsChargedWhenItIsOver) {
  guest_.bring_up();
  for (int i = 0; i < 1000; ++i) {
    guest_.clock.advance(std::chrono::milliseconds(100));
    guest_.create_pd();
  }
  guest_.clock.advance(std::chrono::seconds(10));
  ASSERT_EQ(change({kStop}), 0);
  int rounds = 0;
  while (rounds < 100 && guest_.adapter().held_until() == Instant{}) {
    ASSERT_EQ(change({kStopCopy}), 0);
    const Instant held = guest_.adapter().held_until();
    EXPECT_GT(read_all(3000).size(), 20'000U);
    EXPECT_EQ(guest_.adapter().held_until(), held);
    ASSERT_EQ(change({kStop}), 0);
    ++rounds;
  }
  EXPECT_LE(rounds, 7) << "20 KB cost as much as two commands";
}

TEST_F(AdapterMigrationRateTest, WhoseLoadsAreResetAgainAndAgainHoldsUpItself) {
  guest_.bring_up();
  for (int i = 0; i < 1000; ++i) {
    guest_.clock.advance(std::chrono::milliseconds(100));
    guest_.create_pd();
  }
  const Bytes state = guest_.save();
  ASSERT_GT(state.size(), 20'000U);
  guest_.adapter().reset();
  guest_.clock.advance(std::chrono::seconds(10));
  int rounds = 0;
  while (rounds < 100 && guest_.adapter().held_until() == Instant{}) {
    ASSERT_EQ(change({kStop, kResuming}), 0);
    ASSERT_EQ(guest_.adapter().migration_write(state), 0);
    guest_.adapter().reset();
    ++rounds;
  }
  EXPECT_LE(rounds, 11) << "20 KB cost as much as two commands";
}

TEST_F(AdapterMigrationTest, AStateThatWasCutOffDoesNotLookAsIfItEnded) {
  guest_.bring_up();
  ASSERT_EQ(change({kStop, kStopCopy}), 0);
  Bytes some(100);
  ASSERT_EQ(guest_.adapter().migration_read(some), some.size());
  ASSERT_EQ(change({kStop}), 0);
  EXPECT_EQ(guest_.adapter().migration_read(some), tl::unexpected(EIO));
}

TEST_F(AdapterMigrationRateTest, WhoHasPeersLookedForAgainAndAgainHoldsUpItself) {
  guest_.connect();
  guest_.port.peers_qps = 30'000;
  int rounds = 0;
  while (rounds < 100 && guest_.adapter().held_until() == Instant{}) {
    ASSERT_EQ(change({kStop, kRunning}), 0);
    ++rounds;
  }
  EXPECT_LE(rounds, 2);
}

TEST_F(AdapterMigrationTest, TheLogHasWhatTheDeviceWrote) {
  guest_.bring_up();
  std::uint64_t page_size = 1u << 20;
  ASSERT_EQ(guest_.adapter().log_start(page_size, {}), 0);
  EXPECT_EQ(page_size, 4096u);
  EXPECT_EQ(guest_.adapter().log_start(page_size, {}), EBUSY);
  guest_.create_pd();
  Bytes written = report();
  EXPECT_TRUE(has(written, guest_.region.resp_slot_dma));
  EXPECT_FALSE(has(written, guest_.region.cmd_slot_dma));
  written = report();
  EXPECT_FALSE(has(written, guest_.region.resp_slot_dma)) << "a report forgets";
  guest_.adapter().set_link(false);
  Bytes word(8);
  EXPECT_EQ(guest_.adapter().log_report({FakeGuest::kRamBase, 4u << 20}, 1u << 20, word), 0);
  EXPECT_EQ(word[0], std::byte{1}) << "larger pages, of which the first was written";
  EXPECT_EQ(guest_.adapter().log_report({0, 64ull << 30}, 1u << 30, word), E2BIG);
}

TEST_F(AdapterMigrationTest, TheLogGoesOnOverAResetAndEndsWithTheClient) {
  guest_.bring_up();
  std::uint64_t page_size = 4096;
  ASSERT_EQ(guest_.adapter().log_start(page_size, {}), 0);
  guest_.create_pd();
  guest_.adapter().reset();  // the guest reboots while its VM moves
  EXPECT_TRUE(has(report(), guest_.region.resp_slot_dma));
  guest_.adapter().disconnected("the test ends it");
  EXPECT_EQ(guest_.adapter().memory().log_state(), guestmem::LogState::kOff);
  guest_.bring_up();
  Bytes bitmap(128);
  EXPECT_EQ(guest_.adapter().log_report({FakeGuest::kRamBase, 4u << 20}, 4096, bitmap), EINVAL);
  ASSERT_EQ(guest_.adapter().log_start(page_size, {}), 0);
  EXPECT_EQ(guest_.adapter().log_stop(), 0);
}

}  // namespace
}  // namespace pvrdma::device
