// The seeded simulation: random worlds, each replayed by its seed.
//
//   sim_test                         a fixed set of seeds
//   sim_test --seed 7                that one (also PVRDMA_SIM_SEED=7)
//   PVRDMA_SIM_STEPS, PVRDMA_SIM_SEEDS   more steps per world, more worlds
//   PVRDMA_SIM_FIRST                     the first of their seeds
//   PVRDMA_SIM_DOORBELLS=mapped          in every world, not as its seed says
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "gtest/gtest.h"

#include "base/log.h"
#include "sim/cluster_world.h"
#include "sim/native_world.h"
#include "sim/one_host_world.h"
#include "sim/shards_world.h"

namespace pvrdma::sim {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

unsigned long long number(std::uint64_t value) {
  return value;
}

constexpr HardwareVersion kVersions[] = {HardwareVersion::k18, HardwareVersion::k13, HardwareVersion::k17,
                                         HardwareVersion::k14};

bool all_are_mapped() {
  const char* text = std::getenv("PVRDMA_SIM_DOORBELLS");
  return text != nullptr && std::strcmp(text, "mapped") == 0;
}

// Every second pair of seeds is mapped, so that both modes meet all other choices that follow from remainders
// of the seed.
DoorbellMode doorbells_of(std::uint64_t seed) {
  if (all_are_mapped()) return DoorbellMode::kMapped;
  return seed / 2 % 2 == 0 ? DoorbellMode::kTrapped : DoorbellMode::kMapped;
}

OneHostOptions one_host(std::uint64_t seed) {
  return {.seed = seed,
          .vms = seed % 2 == 0 ? 2u : 3u,
          .connections = static_cast<std::uint32_t>(2 + seed % 5),
          .hardware_version = kVersions[seed % 7 % std::size(kVersions)],
          .doorbells = doorbells_of(seed)};
}

ClusterOptions several_hosts(std::uint64_t seed) {
  const auto hosts = static_cast<std::uint32_t>(2 + seed % 3);
  return {.seed = seed,
          .hosts = hosts,
          .vms = hosts + 1 + static_cast<std::uint32_t>(seed % 2),
          .connections = static_cast<std::uint32_t>(3 + seed % 5),
          .hardware_version = kVersions[seed % 7 % std::size(kVersions)],
          .doorbells = doorbells_of(seed),
          .only_lanes = seed % 5 == 0};
}

ClusterOptions with_strangers(std::uint64_t seed) {
  ClusterOptions options = several_hosts(seed);
  options.strangers = 1 + static_cast<std::uint32_t>(seed / 3 % (options.hosts - 1));
  options.only_lanes = false;
  return options;
}

ClusterOptions with_hcas(std::uint64_t seed) {
  ClusterOptions options = several_hosts(seed);
  options.hcas = true;
  return options;
}

NativeOptions native(std::uint64_t seed) {
  return {.seed = seed,
          .vms = seed % 2 == 0 ? 2u : 3u,
          .connections = static_cast<std::uint32_t>(2 + seed % 5),
          .doorbells = doorbells_of(seed),
          .roce = seed % 7 == 0 ? RoceVersion::kV1 : RoceVersion::kV2};
}

constexpr Peace kPeaces[] = {Peace::kNone, Peace::kNoTrouble, Peace::kNoLoss};

// The number of shards follows from another remainder than the rest, so each number meets all other choices.
ShardsOptions several_shards(std::uint64_t seed) {
  return {.seed = seed,
          .shards = static_cast<std::uint32_t>(1 + seed % 7 % 4),
          .vms = static_cast<std::uint32_t>(2 + seed % 3),
          .connections = static_cast<std::uint32_t>(3 + seed % 6),
          .hardware_version = kVersions[seed % 5 % std::size(kVersions)],
          .doorbells = doorbells_of(seed),
          .peace = kPeaces[seed / 2 % std::size(kPeaces)]};
}

ShardsOptions several_hosts_with_shards(std::uint64_t seed) {
  ShardsOptions options = several_shards(seed);
  options.hosts = static_cast<std::uint32_t>(2 + seed % 11 % 2);
  options.shards = static_cast<std::uint32_t>(1 + seed % 7 % 3);
  options.vms = options.hosts + 1 + static_cast<std::uint32_t>(seed % 2);
  return options;
}

// A message that changes from lanes to pipes may overtake others.
ShardsOptions shards_with_hcas(std::uint64_t seed) {
  ShardsOptions options = several_hosts_with_shards(seed);
  options.hcas = true;
  options.peace = kPeaces[seed / 2 % 2];
  return options;
}

// Runs the world to its end. Returns what went wrong; empty: nothing did.
std::string live(World& world, std::uint64_t steps) {
  std::uint64_t step = 0;
  try {
    for (; step < steps; ++step) world.step();
    world.wind_up();
  } catch (const std::exception& error) {
    return std::string(error.what()) + " (step " + std::to_string(step) + ")";
  }
  return {};
}

// Runs one world for each seed, and calls `seen(world)` after its end.
template <typename AnyWorld, typename Options, typename Seen>
void live_all(Options options_of, std::uint64_t worlds_usually, std::uint64_t steps_usually, Seen seen) {
  const std::uint64_t only = setting("PVRDMA_SIM_SEED", 0);
  const std::uint64_t first = only != 0 ? only : setting("PVRDMA_SIM_FIRST", 1);
  const std::uint64_t worlds = only != 0 ? 1 : setting("PVRDMA_SIM_SEEDS", worlds_usually);
  const std::uint64_t steps = setting("PVRDMA_SIM_STEPS", steps_usually);
  World::Tally total;
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    AnyWorld world(options_of(seed));
    EXPECT_EQ(live(world, steps), "")
        << "replay with: " << (all_are_mapped() ? "PVRDMA_SIM_DOORBELLS=mapped " : "")
        << "PVRDMA_SIM_STEPS=" << steps << " sim_test --seed " << seed
        << " --gtest_filter=" << ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name()
        << "." << ::testing::UnitTest::GetInstance()->current_test_info()->name();
    total.completions += world.tally().completions;
    total.connections_finished += world.tally().connections_finished;
    total.vms_lost += world.tally().vms_lost;
    total.datagrams_received += world.tally().datagrams_received;
    total.adapters_replaced += world.tally().adapters_replaced;
    total.pages_audited += world.tally().pages_audited;
    total.breaks += world.tally().breaks;
    total.hidden_doorbells += world.tally().hidden_doorbells;
    total.events_maybe_armed += world.tally().events_maybe_armed;
    seen(world);
  }
  std::printf(
      "%llu worlds: %llu completions, %llu datagrams, %llu connections ended, %llu VMs lost, "
      "%llu adapters replaced, %llu pages audited, %llu breaks, %llu hidden doorbells, %llu events maybe "
      "armed",
      number(worlds), number(total.completions), number(total.datagrams_received),
      number(total.connections_finished), number(total.vms_lost), number(total.adapters_replaced),
      number(total.pages_audited), number(total.breaks), number(total.hidden_doorbells),
      number(total.events_maybe_armed));
  EXPECT_GT(total.pages_audited, 0u);
  if (worlds < 3) return;  // perhaps no world replaces adapters or has mapped doorbells
  EXPECT_GT(total.adapters_replaced, 0u);
  EXPECT_GT(total.hidden_doorbells, 0u);
  EXPECT_GT(total.events_maybe_armed, 0u);
}

TEST(Simulation, EveryWorldKeepsItsPromises) {
  std::uint64_t refused = 0;
  std::uint64_t torn = 0;
  live_all<OneHostWorld>(one_host, 16, 2000, [&](const OneHostWorld& world) {
    refused += world.lossy_network().refused();
    torn += world.lossy_network().torn();
  });
  std::printf(", %llu requests refused, %llu messages torn\n", number(refused), number(torn));
}

TEST(Simulation, EveryClusterKeepsItsPromises) {
  ClusterWorld::ClusterTally total;
  live_all<ClusterWorld>(several_hosts, 10, 2500, [&](const ClusterWorld& world) {
    const ClusterWorld::ClusterTally one = world.cluster_tally();
    total.hosts_died += one.hosts_died;
    total.vms_moved += one.vms_moved;
    total.gids_moved += one.gids_moved;
    total.binds_refused += one.binds_refused;
    total.rulesets_off += one.rulesets_off;
    total.links_down += one.links_down;
    total.adapters_stopped += one.adapters_stopped;
    total.cuts += one.cuts;
    total.lies += one.lies;
    total.views_delivered += one.views_delivered;
    total.messages_lost += one.messages_lost;
  });
  std::printf(
      ", %llu hosts died, %llu VMs moved, %llu GIDs moved, %llu binds refused, %llu rulesets disabled, "
      "%llu links down, %llu adapters stopped, %llu pairs cut, %llu lies, %llu views delivered, %llu "
      "messages lost\n",
      number(total.hosts_died), number(total.vms_moved), number(total.gids_moved),
      number(total.binds_refused), number(total.rulesets_off), number(total.links_down),
      number(total.adapters_stopped), number(total.cuts), number(total.lies), number(total.views_delivered),
      number(total.messages_lost));
}

TEST(Simulation, EveryClusterWithHcasKeepsItsPromises) {
  ClusterWorld::ClusterTally total;
  live_all<ClusterWorld>(with_hcas, 10, 2500, [&](const ClusterWorld& world) {
    const ClusterWorld::ClusterTally one = world.cluster_tally();
    total.hosts_died += one.hosts_died;
    total.ports_down += one.ports_down;
    total.pipes_broken += one.pipes_broken;
    total.messages_by_hca += one.messages_by_hca;
    total.bulk.lent += one.bulk.lent;
    total.bulk.fetched += one.bulk.fetched;
    total.bulk.stops += one.bulk.stops;
    total.messages_lost += one.messages_lost;
  });
  std::printf(
      ", %llu hosts died, %llu ports down, %llu times pipes broken, %llu messages by hca, %llu "
      "lent, %llu fetched, %llu stops, %llu lost on lanes\n",
      number(total.hosts_died), number(total.ports_down), number(total.pipes_broken),
      number(total.messages_by_hca), number(total.bulk.lent), number(total.bulk.fetched),
      number(total.bulk.stops), number(total.messages_lost));
  EXPECT_GT(total.messages_by_hca, 0U);
  EXPECT_GT(total.bulk.fetched, 0U);
}

TEST(Simulation, EveryNativeEndpointKeepsItsPromises) {
  Wire::Tally frames;
  std::uint64_t repeated = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t behind_gaps = 0;
  std::uint64_t bad_answers = 0;
  live_all<NativeWorld>(native, 10, 2000, [&](const NativeWorld& world) {
    frames += world.frames();
    repeated += world.packets_of(&roce::Counters::repeated);
    duplicates += world.packets_of(&roce::Counters::duplicate_request);
    behind_gaps += world.packets_of(&roce::Counters::out_of_sequence);
    bad_answers += world.packets_of(&roce::Counters::bad_response);
  });
  std::printf(
      ", %llu frames, %llu dropped, %llu doubled, %llu damaged, %llu late, %llu times busy, %llu packets "
      "repeated, %llu executed already, %llu behind a gap, %llu bad answers\n",
      number(frames.carried), number(frames.dropped), number(frames.doubled), number(frames.damaged),
      number(frames.late), number(frames.busy), number(repeated), number(duplicates), number(behind_gaps),
      number(bad_answers));
}

TEST(Simulation, EveryStrangerThatJoinsKeepsItsPromises) {
  std::uint64_t joined = 0;
  std::uint64_t frames = 0;
  live_all<ClusterWorld>(with_strangers, 6, 1500, [&](const ClusterWorld& world) {
    joined += world.cluster_tally().strangers_joined;
    frames += world.cluster_tally().frames;
  });
  std::printf(", %llu strangers joined, %llu frames\n", number(joined), number(frames));
  EXPECT_GT(frames, 0u);
}

TEST(Simulation, EveryShardKeepsItsPromises) {
  ShardsWorld::ShardsTally total;
  live_all<ShardsWorld>(several_shards, 12, 1200,
                        [&](const ShardsWorld& world) { total += world.shards_tally(); });
  std::printf(
      ", %llu VMs moved to another shard, %llu moves refused, %llu adapters stopped, %llu times loans "
      "stopped, %llu links down, "
      "%llu GIDs moved, %llu messages between shards, %llu sleeps, %llu bells, %llu times room again, %llu "
      "messages revoked, %llu times answers revoked, %llu messages lost\n",
      number(total.moved), number(total.turned_away), number(total.adapters_stopped),
      number(total.loans_stopped), number(total.links_down), number(total.gids_moved),
      number(total.rings.messages), number(total.rings.sleeps), number(total.rings.bells),
      number(total.rings.rooms), number(total.rings.revoked), number(total.rings.restored),
      number(total.rings.lost));
  if (setting("PVRDMA_SIM_SEED", 0) != 0 || setting("PVRDMA_SIM_SEEDS", 12) < 6) return;  // perhaps one shard
  EXPECT_GT(total.moved, 0u);
  EXPECT_GT(total.turned_away, 0u);
  EXPECT_GT(total.rings.messages, 0u);
  EXPECT_GT(total.rings.bells, 0u);
  EXPECT_GT(total.rings.rooms, 0u);
  EXPECT_GT(total.rings.revoked, 0u);
}

TEST(Simulation, EveryHostWithShardsKeepsItsPromises) {
  ShardsWorld::ShardsTally total;
  live_all<ShardsWorld>(several_hosts_with_shards, 12, 1200,
                        [&](const ShardsWorld& world) { total += world.shards_tally(); });
  std::printf(
      ", %llu VMs moved to another shard, %llu moves refused, %llu messages between shards of a host, %llu "
      "messages lost on lanes\n",
      number(total.moved), number(total.turned_away), number(total.rings.messages),
      number(total.lost_on_lanes));
  EXPECT_GT(total.moved, 0u);
  EXPECT_GT(total.rings.messages, 0u);
  EXPECT_GT(total.lost_on_lanes, 0u);
}

TEST(Simulation, EveryHostWithShardsAndHcasKeepsItsPromises) {
  ShardsWorld::ShardsTally total;
  live_all<ShardsWorld>(shards_with_hcas, 12, 1200,
                        [&](const ShardsWorld& world) { total += world.shards_tally(); });
  std::printf(
      ", %llu VMs moved to another shard, %llu moves refused, %llu messages by hca, %llu fetched, %llu ports "
      "down, %llu times pipes broken, %llu messages lost on lanes\n",
      number(total.moved), number(total.turned_away), number(total.rings.by_hca), number(total.rings.fetched),
      number(total.ports_down), number(total.pipes_broken), number(total.lost_on_lanes));
  EXPECT_GT(total.moved, 0u);
  EXPECT_GT(total.rings.by_hca, 0u);
  EXPECT_GT(total.rings.fetched, 0u);
}

template <typename AnyWorld, typename Options>
std::uint64_t fingerprint(const Options& options) {
  AnyWorld world(options);
  EXPECT_EQ(live(world, 1000), "");
  return world.fingerprint();
}

TEST(Simulation, ASeedMakesOneWorld) {
  for (const std::uint64_t seed : {101u, 102u}) {
    EXPECT_EQ(fingerprint<OneHostWorld>(one_host(seed)), fingerprint<OneHostWorld>(one_host(seed)));
  }
}

TEST(Simulation, ASeedMakesOneCluster) {
  for (const std::uint64_t seed : {101u, 102u}) {
    EXPECT_EQ(fingerprint<ClusterWorld>(several_hosts(seed)), fingerprint<ClusterWorld>(several_hosts(seed)));
  }
}

TEST(Simulation, ASeedMakesOneWorldOfNativeEndpoints) {
  for (const std::uint64_t seed : {101u, 102u}) {
    EXPECT_EQ(fingerprint<NativeWorld>(native(seed)), fingerprint<NativeWorld>(native(seed)));
  }
}

TEST(Simulation, ASeedMakesOneHostOfShards) {
  const ShardsOptions options = several_shards(108);  // four shards, and everything may happen
  EXPECT_EQ(fingerprint<ShardsWorld>(options), fingerprint<ShardsWorld>(options));
}

TEST(Simulation, ASeedMakesOneClusterOfShards) {
  const ShardsOptions options =
      several_hosts_with_shards(114);  // three shards each, and everything may happen
  EXPECT_EQ(fingerprint<ShardsWorld>(options), fingerprint<ShardsWorld>(options));
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
