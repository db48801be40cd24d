// Fuzzes the protocol's migration messages: a VMM that changes the state of the migration in any order and
// writes any state in any pieces.
//
// Input: a byte that picks the doorbells, then steps (Step), each a byte with its operands. The written
// pieces together are a stream of saved state; its checksums are corrected first, so that a changed record is
// not refused for its checksum alone. The fuzzer checks: Nothing crashes, and the VMM never loses the device.
// Afterwards a reset makes an adapter that works.
#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "device/fake_guest.h"
#include "support/saved_stream.h"

namespace pvrdma::device {
namespace {

using test::FakeGuest;
using vfio_user::MigrationState;
using Bytes = test::SavedBytes;

constexpr std::size_t kStepsMax = 256;

enum class Step : std::uint8_t { kWrite, kResume, kStop, kRun, kOffer, kRead, kTurn, kLeave, kLast = kLeave };

struct Taken {
  Step step;
  std::span<std::byte> piece;  // of kWrite
};

std::vector<Taken> steps_of(std::span<std::byte> input) {
  std::vector<Taken> steps;
  while (!input.empty() && steps.size() < kStepsMax) {
    const auto step = static_cast<Step>(std::to_integer<std::uint8_t>(input[0]) %
                                        (static_cast<std::uint8_t>(Step::kLast) + 1));
    input = input.subspan(1);
    std::span<std::byte> piece;
    if (step == Step::kWrite && input.size() >= 2) {
      const std::size_t bytes =
          std::to_integer<std::size_t>(input[0]) | std::to_integer<std::size_t>(input[1]) << 8;
      piece = input.subspan(2, std::min(bytes, input.size() - 2));
      input = input.subspan(2 + piece.size());
    }
    steps.push_back({step, piece});
  }
  return steps;
}

void correct_checksums(const std::vector<Taken>& steps) {
  Bytes stream;
  for (const Taken& each : steps) stream.insert(stream.end(), each.piece.begin(), each.piece.end());
  test::make_checksums_right(stream);
  auto from = stream.begin();
  for (const Taken& each : steps) {
    const auto to = from + static_cast<std::ptrdiff_t>(each.piece.size());
    std::copy(from, to, each.piece.begin());
    from = to;
  }
}

void change(FakeGuest& guest, MigrationState next) {
  PVRDMA_CHECK(!guest.adapter().set_migration_state(next).device_is_lost, "the device stays the VMM's");
}

void take(FakeGuest& guest, const Taken& taken) {
  std::array<std::byte, 4096> out{};
  switch (taken.step) {
    case Step::kWrite:
      static_cast<void>(guest.adapter().migration_write(taken.piece));
      return;
    case Step::kResume:
      change(guest, MigrationState::kResuming);
      return;
    case Step::kStop:
      change(guest, MigrationState::kStop);
      return;
    case Step::kRun:
      change(guest, MigrationState::kRunning);
      return;
    case Step::kOffer:
      change(guest, MigrationState::kStopCopy);
      return;
    case Step::kRead:
      static_cast<void>(guest.adapter().migration_read(out));
      return;
    case Step::kTurn:
      guest.adapter().run(guest.clock.now());
      guest.adapter().on_time(guest.clock.now());
      return;
    case Step::kLeave:
      guest.adapter().disconnected("the VMM leaves");
      guest.connect_again();
      return;
  }
}

void test(std::span<std::byte> input) {
  AdapterConfig config = test::some_adapter();
  config.doorbells = kHostIsX86 && !input.empty() && (input[0] & std::byte{1}) != std::byte{}
                         ? DoorbellMode::kMapped
                         : DoorbellMode::kTrapped;
  FakeGuest guest(config);
  guest.connect();
  const std::vector<Taken> steps = steps_of(input.subspan(std::min<std::size_t>(input.size(), 1)));
  correct_checksums(steps);
  for (const Taken& each : steps) take(guest, each);
  guest.adapter().reset();
  guest.adapter().disconnected("the test ends it");
  guest.bring_up();
  guest.create_pd();
}

}  // namespace
}  // namespace pvrdma::device

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> input(bytes.begin(), bytes.end());
  pvrdma::device::test(input);
  return 0;
}
