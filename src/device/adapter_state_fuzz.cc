// Fuzzes a saved adapter from another host: arbitrary records with correct checksums.
//
// Input: a stream of saved state of the adapter from some_adapter(), with trapped or mapped doorbells. Its
// checksums are corrected first, as far as its records' lengths lead. The fuzzer checks: Nothing crashes. A
// refusal leaves the adapter unchanged. A loaded state is saved as a state that loads and is saved as the
// same bytes. The adapter works: turns, timers, every register, doorbells to each page and handle, commands,
// the link, a reset, the VMM's end. The state can be printed and compared.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "device/capabilities.h"
#include "device/fake_guest.h"
#include "device/print_state.h"
#include "support/saved_stream.h"

namespace pvrdma::device {
namespace {

using test::FakeGuest;
using Bytes = test::SavedBytes;

constexpr int kTurnsMax = 16;
constexpr std::uint32_t kUars = 8;

AdapterConfig config_with(DoorbellMode doorbells) {
  AdapterConfig config = test::some_adapter();
  config.doorbells = doorbells;
  return config;
}

void take_turns(FakeGuest& guest) {
  for (int turn = 0; turn < kTurnsMax; ++turn) {
    guest.adapter().run(guest.clock.now());
    const Instant due = guest.adapter().next_deadline();
    if (due == Instant::never()) return;
    guest.clock.set(std::max(guest.clock.now(), due));
    guest.adapter().on_time(guest.clock.now());
  }
}

void work(FakeGuest& guest) {
  Adapter& adapter = guest.adapter();
  adapter.resume();
  adapter.engine().on_all_paths_restored(guest.clock.now());
  take_turns(guest);
  adapter.set_link(!adapter.info().link_up);
  for (std::uint32_t uar = 0; uar < kUars; ++uar) {
    for (const std::uint32_t word : {0u, 4u, 8u}) {
      for (const std::uint32_t handle : {0u, 1u, 2u, 3u, 5u, 100u})
        guest.write32(2, uar * abi::kUarPageBytes + word, 3u << 30 | handle);
    }
  }
  guest.write_register(abi::Register::kRequest, 0);  // with any slot, and any content of it
  guest.write_register(abi::Register::kImr, abi::kImrAllEnabled);
  take_turns(guest);
  static_cast<void>(adapter.held_until());
  static_cast<void>(adapter.info());
}

// Returns whether the state was loaded.
bool test_with(DoorbellMode doorbells, const Bytes& stream) {
  FakeGuest guest(config_with(doorbells));
  guest.connect();
  const Bytes before = guest.save();
  if (!guest.load(guest.adapter(), stream).empty()) {
    PVRDMA_CHECK(guest.save() == before, "a refusal leaves the adapter as it was");
    return false;
  }
  const Bytes saved = guest.save();
  const auto second = guest.successor();
  PVRDMA_CHECK(guest.load(*second, saved).empty(), "what an adapter saves can be loaded");
  PVRDMA_CHECK(guest.save(*second) == saved, "a loaded adapter is saved as the same bytes");
  if (guest.adapter().info().state != AdapterState::kFailed) work(guest);
  guest.adapter().reset();
  guest.adapter().disconnected("the test ends it");
  guest.bring_up();
  guest.create_pd();
  return true;
}

void test(Bytes stream) {
  test::make_checksums_right(stream);
  static_cast<void>(print_state(stream));
  if (test_with(DoorbellMode::kTrapped, stream)) return;
  if (kHostIsX86) test_with(DoorbellMode::kMapped, stream);
}

}  // namespace
}  // namespace pvrdma::device

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  const auto bytes = std::as_bytes(std::span(data, size));
  pvrdma::device::test({bytes.begin(), bytes.end()});
  return 0;
}
