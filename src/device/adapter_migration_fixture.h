// AdapterMigrationTest: what tests of an adapter's migration messages share. slow_adapter() may execute few
// commands in a second. Thread: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <initializer_list>
#include <span>

#include "base/log.h"
#include "device/fake_guest.h"
#include "support/saved_stream.h"

namespace pvrdma::device {

using Bytes = test::SavedBytes;
using test::FakeGuest;

inline AdapterConfig slow_adapter() {
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
    if (const int error = change(there, {vfio_user::MigrationState::kResuming}); error != 0) return error;
    return write(there, stream);
  }
  static int write(Adapter& there, std::span<const std::byte> stream) {
    for (std::size_t at = 0; at < stream.size(); at += 700) {
      const auto piece = stream.subspan(at, std::min<std::size_t>(700, stream.size() - at));
      if (const int error = there.migration_write(piece); error != 0) return error;
    }
    return change(there, {vfio_user::MigrationState::kStop});
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

}  // namespace pvrdma::device
