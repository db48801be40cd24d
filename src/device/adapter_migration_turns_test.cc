// A state that a VMM reads or writes is saved or loaded over many turns.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/adapter_migration_fixture.h"
#include "device/describe.h"
#include "support/manual_clock.h"
#include "vfio_user/migration.h"
#include "vfio_user/raw_peer.h"
#include "vfio_user/session.h"

namespace pvrdma::device {
namespace {

using enum vfio_user::MigrationState;
using test::ManualClock;

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

// What a VMM sends ahead waits: it cannot have the rest of a load done in one turn.
TEST_F(AdapterMigrationTurnsTest, MessagesThatComeAlongWithAStateWaitForIt) {
  using vfio_user::bytes_of;
  namespace wire = vfio_user::wire;
  there_->disconnected("the test has no session yet");
  vfio_user::SocketPair pair;
  vfio_user::RawPeer vmm(std::move(pair.theirs));
  vfio_user::Session session(std::move(pair.ours), *there_, "test", {.clock = &clock_});
  vmm.send(vfio_user::qemu_version());
  const auto change_to = [&vmm](std::uint16_t id, vfio_user::MigrationState state) {
    vmm.send(vfio_user::message(
        id, vfio_user::Command::kDeviceFeature,
        bytes_of(wire::DeviceFeature{16, wire::kFeatureSet | wire::kFeatureMigDeviceState},
                 wire::MigDeviceState{.device_state = static_cast<std::uint32_t>(state)})));
  };
  change_to(1, kResuming);
  vfio_user::Bytes data = bytes_of(wire::MigData{8, static_cast<std::uint32_t>(stream_.size())});
  data.insert(data.end(), stream_.begin(), stream_.end());
  vmm.send(vfio_user::message(2, vfio_user::Command::kMigDataWrite, data));
  change_to(3, kStop);

  int busy_turns = 0;
  do {
    ASSERT_TRUE(session.run());
    if (there_->is_busy()) {
      EXPECT_TRUE(session.has_more());
      EXPECT_EQ(there_->info().objects.cqs, 0U);
      ++busy_turns;
    }
    there_->run(clock_.now());
  } while (session.has_more() || there_->info().objects.cqs == 0);
  EXPECT_GT(busy_turns, 30) << "a record in each turn";
  EXPECT_EQ(there_->info().objects.cqs, 20U);
  for (std::uint16_t id = 0; id <= 3; ++id) {  // VERSION has another number
    const auto reply = vmm.receive();
    ASSERT_TRUE(reply);
    EXPECT_TRUE(id == 0 || reply->header.id == id);
    EXPECT_EQ(reply->header.error, 0U);
  }
}

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

TEST_F(AdapterMigrationTurnsRateTest, ATurnWithoutWorkCostsNothing) {
  for (int turn = 0; turn < 1000; ++turn) there_->run(clock_.now());
  there_->reset();
  EXPECT_EQ(there_->held_until(), Instant{});
}

}  // namespace
}  // namespace pvrdma::device
