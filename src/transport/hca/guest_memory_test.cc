// Tests that a VM's memory is registered in chunks, in the background, and is forgotten when it is unmapped.
#include "transport/hca/guest_memory.h"

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "base/log.h"
#include "guestmem/test_ram.h"
#include "support/manual_clock.h"
#include "transport/hca/hca_fixture.h"

namespace pvrdma::transport::hca {
namespace {

using guestmem::GuestPhys;
using guestmem::TestRam;

constexpr std::size_t kMiB = 1 << 20;

// Runs jobs when the test tells it to.
class HandServices final : public HcaServices {
 public:
  void work(std::function<void()> job, std::function<void()> then) override {
    jobs_.emplace_back(std::move(job), std::move(then));
  }
  void bury(std::unique_ptr<Buried> dead) override {
    ++buried;
    const bool was_on_shard = std::exchange(on_shard, false);
    dead.reset();
    on_shard = was_on_shard;
  }
  std::shared_ptr<GuestMemory> memory_of(const verbs::Engine&) override { return nullptr; }
  void give_up_device() override { ADD_FAILURE() << "the device does what it must"; }
  std::size_t waiting() const { return jobs_.size(); }
  bool work_on() {
    if (jobs_.empty()) return false;
    const auto [job, then] = std::move(jobs_.front());
    jobs_.pop_front();
    job();
    on_shard = true;
    if (before_then) before_then();
    then();
    on_shard = false;
    return true;
  }
  void finish() {
    while (work_on()) {
    }
  }

  std::function<void()> before_then;
  int buried = 0;
  bool on_shard = false;

 private:
  std::deque<std::pair<std::function<void()>, std::function<void()>>> jobs_;
};

class GuestMemoryTest : public testing::Test {
 protected:
  explicit GuestMemoryTest(const NicLimits& limits = kConnectX5) {
    log::set_level(log::Level::kError);
    nics_.add("rdma1", limits, {link_local(1)});
    nics_.set_on_shard([this] { return services_.on_shard; });
    nic_ = nics_.open("rdma1", nobody_).value();
    registry_ = std::make_shared<GuestMemory>(nic_, memory_, services_);
  }
  ~GuestMemoryTest() override {
    services_.on_shard = true;
    registry_.reset();
    services_.on_shard = false;
    services_.finish();
    EXPECT_EQ(nics_.objects(), 0U) << "registrations that nobody ended";
    EXPECT_EQ(nics_.crimes(), 0U);
  }

  std::span<std::byte> at(std::uint64_t gpa, std::size_t bytes) const {
    std::byte* const host = memory_.translate(GuestPhys(gpa), bytes, guestmem::Access::kRead);
    EXPECT_NE(host, nullptr);
    return {host, bytes};
  }
  // How many bytes from `gpa` on are registered.
  std::size_t known(std::uint64_t gpa) const { return registry_->find(at(gpa, 1).data()).bytes; }

  struct Nobody final : NicUser {
    void on_news(News) override {}
  } nobody_;
  test::ManualClock clock_;
  FakeNetwork nics_{7, clock_};
  std::shared_ptr<Nic> nic_;
  guestmem::AddressSpace memory_;
  HandServices services_;
  std::shared_ptr<GuestMemory> registry_;
};

TEST_F(GuestMemoryTest, WhatIsRamIsRegisteredInTheBackground) {
  const TestRam ram(8 * kMiB);
  ram.map_into(memory_, 0);
  ASSERT_TRUE(memory_.map(GuestPhys(64 * kMiB), kMiB, Fd(), 0, true, true)) << "no RAM";
  registry_->refresh();
  EXPECT_FALSE(registry_->is_ready());
  EXPECT_EQ(known(0), 0U);
  services_.finish();
  EXPECT_TRUE(registry_->is_ready());
  EXPECT_EQ(registry_->trouble(), "");
  EXPECT_EQ(registry_->bytes(), 8 * kMiB);
  EXPECT_EQ(registry_->pinned_bytes(), 8 * kMiB);
  EXPECT_EQ(known(5 * kMiB), 3 * kMiB);
  const GuestMemory::Key key = registry_->find(at(0, 1).data());
  EXPECT_NE(key.lkey, key.rkey);
  EXPECT_EQ(registry_->find(at(0, 8 * kMiB).data() + 8 * kMiB).bytes, 0U) << "behind it";
  registry_->refresh();
  EXPECT_EQ(services_.waiting(), 0U) << "nothing is new";
}

TEST_F(GuestMemoryTest, MemoryThatTheVmMayOnlyReadStaysUnknown) {
  const TestRam ram(kMiB);
  ASSERT_TRUE(memory_.map(GuestPhys(0), kMiB, ram.fd(), 0, true, false));
  registry_->refresh();
  EXPECT_EQ(services_.waiting(), 0U);
  EXPECT_EQ(registry_->find(at(0, 1).data()).bytes, 0U);
}

TEST_F(GuestMemoryTest, MoreMemoryIsRegisteredWhenItIsLookedFor) {
  const TestRam first(2 * kMiB);
  const TestRam second(4 * kMiB);
  first.map_into(memory_, 0);
  registry_->refresh();
  services_.finish();
  second.map_into(memory_, 64 * kMiB);
  EXPECT_EQ(known(64 * kMiB), 0U);
  registry_->refresh();
  services_.finish();
  EXPECT_EQ(known(64 * kMiB), 4 * kMiB);
  EXPECT_EQ(registry_->pinned_bytes(), 6 * kMiB);
}

TEST_F(GuestMemoryTest, WhatGoesIsForgottenAtOnceAndItsRegistrationEndsLater) {
  const TestRam first(2 * kMiB);
  const TestRam second(2 * kMiB);
  first.map_into(memory_, 0);
  second.map_into(memory_, 64 * kMiB);
  registry_->refresh();
  services_.finish();
  const auto going = at(64 * kMiB, 2 * kMiB);
  EXPECT_TRUE(registry_->overlaps(going.subspan(kMiB, 4096)));
  registry_->drop(going);
  EXPECT_FALSE(registry_->overlaps(going));
  EXPECT_EQ(registry_->find(going.data()).bytes, 0U);
  EXPECT_EQ(known(0), 2 * kMiB) << "the rest stays";
  EXPECT_EQ(registry_->pinned_bytes(), 2 * kMiB);
  EXPECT_EQ(services_.buried, 1);
}

TEST_F(GuestMemoryTest, WhatGoesWhileItIsRegisteredIsNotKept) {
  const TestRam ram(2 * kMiB);
  ram.map_into(memory_, 0);
  registry_->refresh();
  services_.before_then = [this] { registry_->drop(at(0, 2 * kMiB)); };
  services_.finish();
  EXPECT_EQ(known(0), 0U);
  EXPECT_EQ(registry_->pinned_bytes(), 0U);
  EXPECT_EQ(nics_.objects(), 0U);
}

TEST_F(GuestMemoryTest, WhatIsUnmappedBeforeItsTurnIsNotRegistered) {
  const TestRam ram(2 * kMiB);
  ram.map_into(memory_, 0);
  registry_->refresh();
  const auto going = at(0, 2 * kMiB);
  registry_->drop(going);
  memory_.unmap_all();
  services_.finish();
  EXPECT_EQ(nics_.objects(), 0U);
  EXPECT_EQ(services_.buried, 0);
  EXPECT_EQ(registry_->trouble(), "") << "that is no trouble";
}

TEST_F(GuestMemoryTest, NobodyIsThereWhenItIsRegistered) {
  const TestRam ram(2 * kMiB);
  ram.map_into(memory_, 0);
  registry_->refresh();
  services_.before_then = [this] { registry_.reset(); };
  services_.finish();
  EXPECT_EQ(nics_.objects(), 0U);
}

// A device that accepts only small regions.
class SmallRegions : public GuestMemoryTest {
 protected:
  static NicLimits limits() {
    NicLimits small = kConnectX5;
    small.region_bytes = 3 * kMiB;
    return small;
  }
  SmallRegions() : GuestMemoryTest(limits()) {}
};

TEST_F(SmallRegions, ChunksEndAtTheBordersOfHugePages) {
  const TestRam ram(16 * kMiB);
  ram.map_into(memory_, 0);
  registry_->refresh();
  services_.finish();
  EXPECT_EQ(registry_->pinned_bytes(), 16 * kMiB);
  const std::byte* const begin = at(0, 16 * kMiB).data();
  std::size_t chunks = 0;
  for (std::size_t offset = 0; offset < 16 * kMiB; ++chunks) {
    const GuestMemory::Key key = registry_->find(begin + offset);
    ASSERT_NE(key.bytes, 0U);
    EXPECT_LE(key.bytes, 2 * kMiB);
    offset += key.bytes;
    if (offset != 16 * kMiB) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin + offset) % kChunkAlignment, 0U);
    }
  }
  EXPECT_GE(chunks, 8U);
  EXPECT_LE(chunks, 9U);
}

// A device that refuses every registration.
class NoRegions : public GuestMemoryTest {
 protected:
  static NicLimits limits() {
    NicLimits none = kConnectX5;
    none.region_bytes = 1;
    return none;
  }
  NoRegions() : GuestMemoryTest(limits()) {}
};

TEST_F(NoRegions, AreToldOnceAndDoNoHarm) {
  const TestRam ram(8 * kMiB);
  ram.map_into(memory_, 0);
  registry_->refresh();
  services_.finish();
  EXPECT_TRUE(registry_->is_ready());
  EXPECT_EQ(registry_->trouble(), "no such region");
  EXPECT_EQ(known(0), 0U);
  EXPECT_EQ(registry_->pinned_bytes(), 0U);
}

}  // namespace
}  // namespace pvrdma::transport::hca
