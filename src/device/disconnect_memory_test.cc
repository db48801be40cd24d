// A client leaves while the shard has no memory. Nobody above can catch what is thrown there.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "abi/registers.h"
#include "base/log.h"
#include "device/doorbell_memory.h"
#include "device/fake_guest.h"
#include "guestmem/sigbus.h"
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

// The kernel raises SIGBUS here as it does where it has no memory for a page of the doorbells.
void damage(const DoorbellMemory& memory) {
  std::byte* const page = memory.page(verbs::UarIndex{1});
  const Fd empty(::memfd_create("empty", MFD_CLOEXEC));
  ASSERT_NE(::mmap(page, abi::kUarPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty.get(), 0),
            MAP_FAILED);
  const std::byte found = *static_cast<volatile std::byte*>(page);
  EXPECT_EQ(found, std::byte{0});
}

TEST_F(NoMemoryAtTheEnd, DamagedDoorbellsStayDamagedUntilTheyAreMappedAgain) {
  ASSERT_TRUE(guestmem::install_sigbus_handler());
  const auto memory = DoorbellMemory::create(16, DoorbellMode::kMapped).value();
  *memory->page(verbs::UarIndex{1}) = std::byte{7};
  damage(*memory);
  std::uint64_t failures = 0;
  for (bool failed = true; failed; failures += failed ? 1 : 0) {
    ASSERT_TRUE(memory->damaged()) << "after " << failures << " failures";
    const NoMemoryFrom none(failures + 1);
    memory->repair();
    failed = none.has_failed();
  }
  EXPECT_GT(failures, 0U);
  EXPECT_FALSE(memory->damaged());
  EXPECT_EQ(*memory->page(verbs::UarIndex{1}), std::byte{7});
}

}  // namespace
}  // namespace pvrdma::device
