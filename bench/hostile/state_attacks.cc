// Attacks with an adapter's saved state: a VMM saves a large adapter and loads it again, as in a motion.
#include <algorithm>
#include <chrono>
#include <fmt/core.h>
#include <memory>
#include <vector>

#include "attack.h"
#include "guest.h"
#include "support/rc_endpoint.h"

namespace pvrdma::bench {
namespace {

using vfio_user::MigrationState;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kGiB = 1ULL << 30;
constexpr std::uint64_t kRamGiB = 16;
constexpr std::uint64_t kNamedGiB = 4 * kRamGiB;  // as much as a guest of that size may name
constexpr std::uint64_t kWindowAt = 1ULL << 40;
constexpr std::uint32_t kQps = 30'000;

std::int64_t ms_since(Clock::time_point before) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - before).count();
}

// `longest_ms` becomes at least what the daemon took for one of the reads.
std::vector<std::byte> read_state(vfio_user::Client& client, std::int64_t& longest_ms) {
  std::vector<std::byte> all;
  std::vector<std::byte> piece(client.max_transfer_bytes());
  while (true) {
    const Clock::time_point before = Clock::now();
    const std::size_t size = must(client.migration_read(piece));
    longest_ms = std::max(longest_ms, ms_since(before));
    if (size == 0) return all;
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(size));
  }
}

void write_state(vfio_user::Client& client, std::span<const std::byte> state) {
  while (!state.empty()) {
    const auto piece = state.first(std::min<std::size_t>(state.size(), client.max_transfer_bytes()));
    must(client.migration_write(piece));
    state = state.subspan(piece.size());
  }
}

// How long the daemon took for the change.
std::int64_t change_ms(vfio_user::Client& client, MigrationState state) {
  const Clock::time_point before = Clock::now();
  must(client.set_migration_state(state));
  return ms_since(before);
}

// The reset in between makes the adapter like that of a new VMM, which restores the PCI function itself.
std::string save_and_load(const Field& field, const Guest& guest) {
  vfio_user::Client& client = guest.client();
  std::uint32_t rounds = 0;
  std::size_t bytes = 0;
  std::int64_t save_ms = 0;
  std::int64_t load_ms = 0;
  do {
    save_ms = std::max(save_ms, change_ms(client, MigrationState::kStopCopy));
    const std::vector<std::byte> state = read_state(client, save_ms);
    must(client.reset());
    must(driver::enable_bus_master(guest.device().bus()));
    must(client.set_migration_state(MigrationState::kResuming));
    write_state(client, state);
    load_ms = std::max(load_ms, change_ms(client, MigrationState::kRunning));
    bytes = state.size();
    ++rounds;
  } while (!field.over());
  return fmt::format("{} KiB saved and loaded, {} times; {} and {} ms at most for one message", bytes / 1024,
                     rounds, save_ms, load_ms);
}

// Regions of 1 GiB of which no page follows the one before, so that the state has a number for each page.
std::string saved_regions(Field& field) {
  Guest guest(field.sockets[0]);
  const Fd file = memory_file(kRamGiB * kGiB);
  guest.map(kWindowAt, file, kRamGiB * kGiB);
  const LargeRegion region(guest, pages_from(kWindowAt, kGiB / abi::kPageBytes, 2));
  for (std::uint64_t named = 0; named < kNamedGiB; ++named) must(region.create(guest));
  field.begin();
  return fmt::format("{} GiB in regions: {}", kNamedGiB, save_and_load(field, guest));
}

std::string saved_qps(Field& field) {
  Guest guest(field.sockets[0]);
  must(guest.device().bind_gid(0, test::gid_of(0)));
  Crowd crowd(guest, guest.device().kernel(), kQps);
  crowd.start(test::gid_of(0));
  field.begin();
  return fmt::format("{} QPs: {}", crowd.size(), save_and_load(field, guest));
}

constexpr Attack kAttacks[] = {
    {"saved-regions", "an adapter with regions of 64 GiB is saved and loaded", &saved_regions},
    {"saved-qps", "an adapter with 30,000 QPs is saved and loaded", &saved_qps},
};

}  // namespace

std::span<const Attack> state_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
