// The seeded simulation: random worlds, each replayed by its seed.
//
//   sim_test                         a fixed set of seeds
//   sim_test --seed 7                that one (also PVRDMA_SIM_SEED=7)
//   PVRDMA_SIM_STEPS, PVRDMA_SIM_SEEDS   more steps per world, more worlds
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "gtest/gtest.h"

#include "base/log.h"
#include "sim/one_host_world.h"

namespace pvrdma::sim {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

struct Outcome {
  std::string violation;
  std::uint64_t fingerprint = 0;
  World::Tally tally;
  std::uint64_t refused = 0;
  std::uint64_t torn = 0;
};

Outcome live(const OneHostOptions& options, std::uint64_t steps) {
  Outcome out;
  OneHostWorld world(options);
  std::uint64_t step = 0;
  try {
    for (; step < steps; ++step) world.step();
    world.wind_up();
  } catch (const std::exception& error) {
    out.violation = std::string(error.what()) + " (step " + std::to_string(step) + ")";
  }
  out.fingerprint = world.fingerprint();
  out.tally = world.tally();
  out.refused = world.lossy_network().refused();
  out.torn = world.lossy_network().torn();
  return out;
}

OneHostOptions options_of(std::uint64_t seed) {
  using device::HardwareVersion;
  constexpr HardwareVersion kVersions[] = {HardwareVersion::k18, HardwareVersion::k13, HardwareVersion::k17,
                                           HardwareVersion::k14};
  return {.seed = seed,
          .vms = seed % 2 == 0 ? 2u : 3u,
          .connections = static_cast<std::uint32_t>(2 + seed % 5),
          .hardware_version = kVersions[seed % 7 % std::size(kVersions)]};
}

TEST(Simulation, EveryWorldKeepsItsPromises) {
  const std::uint64_t only = setting("PVRDMA_SIM_SEED", 0);
  const std::uint64_t first = only != 0 ? only : 1;
  const std::uint64_t worlds = only != 0 ? 1 : setting("PVRDMA_SIM_SEEDS", 16);
  const std::uint64_t steps = setting("PVRDMA_SIM_STEPS", 2000);
  World::Tally total;
  std::uint64_t refused = 0;
  std::uint64_t torn = 0;
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    const Outcome outcome = live(options_of(seed), steps);
    EXPECT_EQ(outcome.violation, "") << "replay with: PVRDMA_SIM_STEPS=" << steps << " sim_test --seed "
                                     << seed;
    total.completions += outcome.tally.completions;
    total.connections_finished += outcome.tally.connections_finished;
    total.vms_lost += outcome.tally.vms_lost;
    total.datagrams_received += outcome.tally.datagrams_received;
    total.breaks += outcome.tally.breaks;
    refused += outcome.refused;
    torn += outcome.torn;
  }
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "%llu worlds: %llu completions, %llu datagrams, %llu connections ended, %llu VMs lost, %llu paths "
      "broken, "
      "%llu requests refused, %llu messages torn\n",
      number(worlds), number(total.completions), number(total.datagrams_received),
      number(total.connections_finished), number(total.vms_lost), number(total.breaks), number(refused),
      number(torn));
}

TEST(Simulation, ASeedMakesOneWorld) {
  for (const std::uint64_t seed : {101u, 102u}) {
    EXPECT_EQ(live(options_of(seed), 1000).fingerprint, live(options_of(seed), 1000).fingerprint);
  }
}

}  // namespace
}  // namespace pvrdma::sim

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--seed") == 0) ::setenv("PVRDMA_SIM_SEED", argv[i + 1], 1);
  }
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  return RUN_ALL_TESTS();
}
