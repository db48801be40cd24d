// A client leaves while the shard has no memory. Nobody above can catch what is thrown there.
#include <gtest/gtest.h>

#include "base/log.h"
#include "device/doorbell_memory.h"
#include "device/fake_guest.h"
#include "support/counted_new.h"

namespace pvrdma::device {
namespace {

using test::FakeGuest;
using test::NoMemoryFrom;
using vfio_user::MigrationState;

class NoMemoryAtTheEnd : public testing::Test {
 protected:
  // Warnings are made, too.
  NoMemoryAtTheEnd() { log::set_level(log::Level::kWarn); }

  static void leave(FakeGuest& guest) {
    const NoMemoryFrom none(1);
    guest.adapter().disconnected("the socket is closed");
  }
  static AdapterConfig mapped() {
    AdapterConfig config = test::some_adapter();
    config.doorbells = DoorbellMode::kMapped;
    return config;
  }
};

TEST_F(NoMemoryAtTheEnd, AnAdapterWithObjectsIsOffAgain) {
  FakeGuest guest(mapped());
  guest.bring_up();
  guest.create_pd();
  guest.create_uc(5);
  leave(guest);
  EXPECT_EQ(guest.adapter().info().objects.pds, 0U);
  EXPECT_FALSE(guest.adapter().info().connected);
}

TEST_F(NoMemoryAtTheEnd, AStoppedAdapterIsOffAgain) {
  FakeGuest guest;
  guest.bring_up();
  guest.create_pd();
  ASSERT_EQ(guest.adapter().set_migration_state(MigrationState::kStop).error, 0);
  leave(guest);
  EXPECT_FALSE(guest.port.stopped);
}

TEST_F(NoMemoryAtTheEnd, AnAdapterThatSavesItsStateIsOffAgain) {
  FakeGuest guest;
  guest.bring_up();
  ASSERT_EQ(guest.adapter().set_migration_state(MigrationState::kStop).error, 0);
  ASSERT_EQ(guest.adapter().set_migration_state(MigrationState::kStopCopy).error, 0);
  leave(guest);
  EXPECT_FALSE(guest.port.stopped);
}

TEST_F(NoMemoryAtTheEnd, DamagedDoorbellsStayDamaged) {
  const auto memory = DoorbellMemory::create(16, DoorbellMode::kMapped).value();
  for (std::uint64_t nth = 1;; ++nth) {
    const NoMemoryFrom none(nth);
    memory->repair();
    if (!none.has_failed()) break;
  }
  EXPECT_FALSE(memory->damaged());
}

}  // namespace
}  // namespace pvrdma::device
