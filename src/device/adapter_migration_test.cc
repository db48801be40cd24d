// A VMM's use of the protocol's migration and dirty-log messages. (tests/device/migration_test.cc tests them
// over a socket and with traffic.)
#include <algorithm>
#include <cerrno>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "base/log.h"
#include "device/describe.h"
#include "device/fake_guest.h"
#include "support/manual_clock.h"
#include "support/saved_stream.h"

namespace pvrdma::device {
namespace {

using abi::Command;
using enum vfio_user::MigrationState;
using test::FakeGuest;
using test::kSend;
using test::ManualClock;
using Bytes = test::SavedBytes;

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

AdapterConfig slow_adapter() {
  AdapterConfig config = test::some_adapter();
  config.budgets.commands_per_s = 10;
  return config;
}

class AdapterMigrationTest : public testing::Test {
 protected:
  explicit AdapterMigrationTest(const AdapterConfig& config = test::some_adapter()) : guest_(config) {
    log::set_level(log::Level::kError);
  }
  ~AdapterMigrationTest() override { log::set_level(log::Level::kInfo); }

  static int change(Adapter& adapter, std::initializer_list<vfio_user::MigrationState> states) {
    for (const auto state : states) {
      if (const auto changed = adapter.set_migration_state(state); changed.error != 0) {
        EXPECT_FALSE(changed.device_is_lost);
        return changed.error;
      }
    }
    return 0;
  }
  int change(std::initializer_list<vfio_user::MigrationState> states) {
    return change(guest_.adapter(), states);
  }
  Bytes read_all(std::size_t piece = 1000) {
    Bytes all;
    Bytes some(piece);
    while (true) {
      const auto size = guest_.adapter().migration_read(some);
      EXPECT_TRUE(size);
      all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(*size));
      if (*size < piece) return all;
    }
  }
  // Takes it through RESUMING, all bytes, and STOP.
  static int bring(Adapter& there, std::span<const std::byte> stream) {
    if (const int error = change(there, {kResuming}); error != 0) return error;
    return write(there, stream);
  }
  static int write(Adapter& there, std::span<const std::byte> stream) {
    for (std::size_t at = 0; at < stream.size(); at += 700) {
      const auto piece = stream.subspan(at, std::min<std::size_t>(700, stream.size() - at));
      if (const int error = there.migration_write(piece); error != 0) return error;
    }
    return change(there, {kStop});
  }
  std::uint64_t ignored() { return guest_.adapter().info().device_counters.bad_accesses; }
  std::uint32_t async_tail() { return guest_.load<abi::RingState>(guest_.async.at[0]).rx.prod_tail; }
  // The pages of the guest's RAM that were written since the last report.
  Bytes report() {
    Bytes bitmap(guest_.ram().size() / 4096 / 8);
    EXPECT_EQ(guest_.adapter().log_report({FakeGuest::kRamBase, guest_.ram().size()}, 4096, bitmap), 0);
    return bitmap;
  }
  static bool has(const Bytes& bitmap, std::uint64_t address) {
    const std::uint64_t page = (address - FakeGuest::kRamBase) / 4096;
    return (std::to_integer<unsigned>(bitmap[page / 8]) >> page % 8 & 1) != 0;
  }

  FakeGuest guest_;
};

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

// The adapter that loads has a clock by which each turn is over after one record.
class AdapterMigrationTurnsTest : public AdapterMigrationTest {
 protected:
  explicit AdapterMigrationTurnsTest(const AdapterConfig& config = test::some_adapter())
      : AdapterMigrationTest(config) {}
  void SetUp() override {
    guest_.bring_up();
    for (int i = 0; i < 20; ++i) guest_.create_cq();
    ASSERT_EQ(change({kStop, kStopCopy}), 0);
    stream_ = read_all();
    there_ = guest_.successor(clock_);
    there_->connected();
    ASSERT_EQ(change(*there_, {kStop}), 0);
    before_ = saved();
    ASSERT_EQ(change(*there_, {kResuming}), 0);
  }
  // How many turns it needs until it is not busy, at most `most`.
  int turns(int most = 1000) {
    int count = 0;
    while (count < most && there_->is_busy()) {
      EXPECT_EQ(there_->next_deadline(), Instant{});
      there_->run(clock_.now());
      ++count;
    }
    return count;
  }
  // What it would save, without the rates, which depend on the time.
  Bytes saved() const {
    state::Writer writer;
    there_->save(writer, std::nullopt, clock_.now());
    return timeless(writer.finish());
  }
  static Bytes timeless(const Bytes& stream) {
    std::vector<Bytes> records = test::records_of(stream);
    std::erase_if(records, [](const Bytes& record) { return test::kind_of(record) == kRatesRecord; });
    return test::stream_of(records);
  }
  std::uint64_t cqs_charged() const {
    for (const BudgetUse& use : there_->info().budgets) {
      if (use.budget == Budget::kCqs) return use.use;
    }
    return 0;
  }

  ManualClock clock_{std::chrono::milliseconds(1)};
  Bytes stream_;
  Bytes before_;  // the state of an adapter that has loaded nothing
  std::unique_ptr<Adapter> there_;
};

TEST_F(AdapterMigrationTurnsTest, AStateIsLoadedRecordByRecordAndTakenWhenItIsWhole) {
  ASSERT_EQ(there_->migration_write(std::span(stream_).first(stream_.size() - 1)), 0);
  EXPECT_GT(turns(), 30) << "a turn for each record";
  EXPECT_EQ(there_->next_deadline(), Instant::never());
  EXPECT_FALSE(there_->run(clock_.now()));
  EXPECT_EQ(saved(), before_);
  EXPECT_EQ(there_->info().objects.cqs, 0U);
  EXPECT_GT(cqs_charged(), 0U);
  ASSERT_EQ(there_->migration_write(std::span(stream_).last(1)), 0);
  EXPECT_EQ(turns(), 1);
  EXPECT_EQ(change(*there_, {kStop}), 0);
  EXPECT_EQ(saved(), timeless(stream_));
}

TEST_F(AdapterMigrationTurnsTest, AStateMayBeCutAnywhere) {
  const std::span<const std::byte> all(stream_);
  for (std::size_t cut = 1; cut < all.size(); cut += cut < 600 ? 1 : 97) {
    ASSERT_EQ(there_->migration_write(all.first(cut)), 0);
    turns();
    ASSERT_EQ(there_->migration_write(all.subspan(cut)), 0);
    turns();
    ASSERT_EQ(change(*there_, {kStop}), 0) << cut << " bytes";
    ASSERT_EQ(there_->info().objects.cqs, 20U);
    there_->unload();
    ASSERT_EQ(change(*there_, {kResuming}), 0);
  }
  for (std::size_t at = 0; at < all.size(); ++at) {
    ASSERT_EQ(there_->migration_write(all.subspan(at, 1)), 0);
    turns();
  }
  EXPECT_EQ(change(*there_, {kStop}), 0);
  EXPECT_EQ(saved(), timeless(stream_));
}

TEST_F(AdapterMigrationTurnsTest, AClientThatLeavesTakesWhatWasLoadedAlong) {
  for (int count = 0; count < 60; ++count) {
    ASSERT_EQ(there_->migration_write(stream_), 0);
    turns(count);
    there_->disconnected("the test ends it");
    while (there_->run(clock_.now())) {
    }
    EXPECT_EQ(cqs_charged(), 0U);
    EXPECT_FALSE(there_->is_busy());
    there_->connected();
    ASSERT_EQ(change(*there_, {kStop, kResuming}), 0);
  }
}

TEST_F(AdapterMigrationTurnsTest, AnAdapterMayEndWithAHalfLoadedState) {
  ASSERT_EQ(there_->migration_write(stream_), 0);
  turns(30);
  there_.reset();
}

TEST_F(AdapterMigrationTurnsTest, WhatIsNotLoadedYetIsLoadedWhenItStops) {
  ASSERT_EQ(there_->migration_write(stream_), 0);
  EXPECT_EQ(turns(10), 10);
  EXPECT_EQ(change(*there_, {kStop}), 0);
  EXPECT_EQ(saved(), timeless(stream_));
}

TEST_F(AdapterMigrationTurnsTest, MemoryMayChangeMeanwhile) {
  ASSERT_EQ(there_->migration_write(stream_), 0);
  turns(20);
  there_->dma_unmap_all();
  turns();
  EXPECT_EQ(change(*there_, {kStop}), 0);
  EXPECT_EQ(saved(), timeless(stream_));
}

TEST_F(AdapterMigrationTurnsTest, AResetDropsWhatWasLoaded) {
  ASSERT_EQ(there_->migration_write(stream_), 0);
  turns(30);
  EXPECT_GT(cqs_charged(), 0U);
  there_->reset();
  while (there_->run(clock_.now())) {
  }
  EXPECT_EQ(cqs_charged(), 0U);
  EXPECT_FALSE(there_->is_busy());
  ASSERT_EQ(bring(*there_, stream_), EINVAL) << "the reset has let it run";
  ASSERT_EQ(change(*there_, {kStop}), 0);
  ASSERT_EQ(bring(*there_, stream_), 0);
  EXPECT_EQ(there_->info().objects.cqs, 20U);
}

TEST_F(AdapterMigrationTurnsTest, WhatComesAfterARefusalIsDroppedAndTheReasonIsKept) {
  Bytes damaged = stream_;
  damaged[damaged.size() / 2] ^= std::byte{1};
  damaged.insert(damaged.end(), stream_.begin(), stream_.end());
  ASSERT_EQ(there_->migration_write(damaged), 0);
  turns();
  ASSERT_EQ(there_->migration_write(stream_), 0);
  EXPECT_FALSE(there_->is_busy());
  EXPECT_EQ(change(*there_, {kStop}), EINVAL);
  EXPECT_EQ(write(*there_, stream_), 0);
  EXPECT_EQ(saved(), timeless(stream_));
}

TEST_F(AdapterMigrationTurnsTest, BytesAfterTheEndAreRefused) {
  ASSERT_EQ(there_->migration_write(stream_), 0);
  turns();
  ASSERT_EQ(there_->migration_write(std::span(stream_).first(1)), 0);
  EXPECT_EQ(change(*there_, {kStop}), EINVAL);
}

// The one that was loaded now saves.
TEST_F(AdapterMigrationTurnsTest, AStateIsSavedRecordByRecord) {
  ASSERT_EQ(write(*there_, stream_), 0);
  ASSERT_EQ(change(*there_, {kStopCopy}), 0);
  EXPECT_GT(turns(), 20);
  Bytes all(stream_.size() + 1);
  const auto size = there_->migration_read(all);
  ASSERT_EQ(size, stream_.size());
  all.resize(*size);
  EXPECT_EQ(timeless(all), timeless(stream_));
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

class AdapterMigrationTurnsRateTest : public AdapterMigrationTurnsTest {
 protected:
  AdapterMigrationTurnsRateTest() : AdapterMigrationTurnsTest(slow_adapter()) {}
};

TEST_F(AdapterMigrationTurnsRateTest, TheTimeOfALoadIsChargedWhenItIsOver) {
  ASSERT_EQ(there_->migration_write(stream_), 0);
  EXPECT_GT(turns(), 20);
  EXPECT_EQ(there_->held_until(), Instant{});
  there_->reset();
  EXPECT_NE(there_->held_until(), Instant{}) << "although the state was not taken";
}

TEST_F(AdapterMigrationTurnsRateTest, TheTimeOfASaveIsChargedWhenItIsOver) {
  ASSERT_EQ(write(*there_, stream_), 0);
  ASSERT_EQ(change(*there_, {kStopCopy}), 0);
  EXPECT_GT(turns(), 20);
  EXPECT_EQ(there_->held_until(), Instant{});
  ASSERT_EQ(change(*there_, {kStop}), 0);
  EXPECT_NE(there_->held_until(), Instant{}) << "although nothing was read";
}

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
