#include "snapshots/counter_groups.h"

#include <cstddef>
#include <cstdint>

namespace pvrdma::snapshots {
namespace {

template <typename Counters>
struct Named {
  std::string_view name;
  std::uint64_t Counters::*member;
};

template <typename Counters, std::size_t N>
CounterGroup group_of(std::string_view name, const Named<Counters> (&members)[N], const Counters& counters) {
  CounterGroup group{name, {}};
  group.counters.reserve(N);
  for (const auto& [label, member] : members) group.counters.push_back({label, counters.*member});
  return group;
}

constexpr Named<verbs::Counters> kVerbs[] = {
    {"tx_messages", &verbs::Counters::tx_messages},
    {"tx_bytes", &verbs::Counters::tx_bytes},
    {"rx_messages", &verbs::Counters::rx_messages},
    {"rx_bytes", &verbs::Counters::rx_bytes},
    {"served_read_bytes", &verbs::Counters::read_bytes_served},
    {"atomics_served", &verbs::Counters::atomics_served},
    {"retransmits", &verbs::Counters::retransmits},
    {"timeouts", &verbs::Counters::timeouts},
    {"rnr_naks_sent", &verbs::Counters::rnr_naks_sent},
    {"rnr_naks_received", &verbs::Counters::rnr_naks_received},
    {"sequence_naks_sent", &verbs::Counters::sequence_naks_sent},
    {"duplicates", &verbs::Counters::duplicates},
    {"access_errors", &verbs::Counters::access_errors},
    {"local_errors", &verbs::Counters::local_errors},
    {"remote_errors", &verbs::Counters::remote_errors},
    {"retry_exceeded", &verbs::Counters::retry_exceeded},
    {"flushed", &verbs::Counters::flushed},
    {"cq_overflows", &verbs::Counters::cq_overflows},
    {"hidden_doorbells", &verbs::Counters::hidden_doorbells},
    {"events_maybe_armed", &verbs::Counters::events_maybe_armed},
    {"bad_doorbells", &verbs::Counters::bad_doorbells},
    {"invalid_ring_indices", &verbs::Counters::invalid_ring_indices},
    {"dropped_unknown_qp", &verbs::Counters::dropped_unknown_qp},
    {"ud_dropped_qkey", &verbs::Counters::ud_dropped_qkey},
    {"ud_dropped_no_receive", &verbs::Counters::ud_dropped_no_receive},
    {"ud_dropped_length", &verbs::Counters::ud_dropped_length},
};
static_assert(sizeof(kVerbs) / sizeof(kVerbs[0]) * sizeof(std::uint64_t) == sizeof(verbs::Counters),
              "a counter has no name");

constexpr Named<device::Counters> kDevice[] = {
    {"commands", &device::Counters::commands},
    {"doorbells", &device::Counters::doorbells},
    {"interrupts", &device::Counters::interrupts},
    {"slow_interrupts", &device::Counters::slow_interrupts},
    {"notifications", &device::Counters::notifications},
    {"async_events", &device::Counters::async_events},
    {"events_held_back", &device::Counters::events_held_back},
    {"events_dropped", &device::Counters::events_dropped},
    {"invalid_event_indices", &device::Counters::invalid_event_indices},
    {"bad_accesses", &device::Counters::bad_accesses},
    {"posted_register_writes", &device::Counters::posted_register_writes},
    {"shared_region_errors", &device::Counters::shared_region_errors},
    {"resets", &device::Counters::resets},
    {"connections", &device::Counters::connections},
    {"qp_failures", &device::Counters::qp_failures},
    {"offences", &device::Counters::offences},
    {"offences_us", &device::Counters::offences_us},
};
static_assert(sizeof(kDevice) / sizeof(kDevice[0]) * sizeof(std::uint64_t) + sizeof(device::CommandErrors) ==
                  sizeof(device::Counters),
              "a counter has no name");

constexpr Named<device::CommandErrors> kCommandError[] = {
    {"not_ready", &device::CommandErrors::not_ready},
    {"no_such_object", &device::CommandErrors::no_such_object},
    {"busy", &device::CommandErrors::busy},
    {"no_memory", &device::CommandErrors::no_memory},
    {"bad_address", &device::CommandErrors::bad_address},
    {"invalid", &device::CommandErrors::invalid},
    {"not_permitted", &device::CommandErrors::not_permitted},
    {"not_supported", &device::CommandErrors::not_supported},
    {"address_in_use", &device::CommandErrors::address_in_use},
};
static_assert(sizeof(kCommandError) / sizeof(kCommandError[0]) * sizeof(std::uint64_t) ==
                  sizeof(device::CommandErrors),
              "a counter has no name");

constexpr Named<transport::Counters> kTransport[] = {
    {"requests", &transport::Counters::requests},
    {"responses", &transport::Counters::responses},
    {"datagrams", &transport::Counters::datagrams},
    {"payload_bytes", &transport::Counters::payload_bytes},
};
static_assert(sizeof(kTransport) / sizeof(kTransport[0]) * sizeof(std::uint64_t) ==
                  sizeof(transport::Counters),
              "a counter has no name");

constexpr Named<transport::TcpErrors> kTcpErrors[] = {
    {"bad_frames", &transport::TcpErrors::bad_frames},
    {"bad_sequence", &transport::TcpErrors::bad_sequence},
    {"wrong_version", &transport::TcpErrors::wrong_version},
    {"unknown_hosts", &transport::TcpErrors::unknown_hosts},
    {"not_allowed", &transport::TcpErrors::not_allowed},
    {"no_room", &transport::TcpErrors::no_room},
    {"tls_failures", &transport::TcpErrors::tls_failures},
    {"silent_peers", &transport::TcpErrors::silent_peers},
    {"foreign_sources", &transport::TcpErrors::foreign_sources},
    {"unknown_gids", &transport::TcpErrors::unknown_gids},
    {"datagrams_dropped", &transport::TcpErrors::datagrams_dropped},
    {"responses_dropped", &transport::TcpErrors::responses_dropped},
};
static_assert(sizeof(kTcpErrors) / sizeof(kTcpErrors[0]) * sizeof(std::uint64_t) ==
                  sizeof(transport::TcpErrors),
              "a counter has no name");

constexpr Named<transport::HcaErrors> kHcaErrors[] = {
    {"falls", &transport::HcaErrors::falls},
    {"failed_setups", &transport::HcaErrors::failed_setups},
    {"bad_frames", &transport::HcaErrors::bad_frames},
    {"bad_sequence", &transport::HcaErrors::bad_sequence},
    {"silent_peers", &transport::HcaErrors::silent_peers},
    {"foreign_sources", &transport::HcaErrors::foreign_sources},
    {"unknown_gids", &transport::HcaErrors::unknown_gids},
    {"datagrams_dropped", &transport::HcaErrors::datagrams_dropped},
    {"responses_dropped", &transport::HcaErrors::responses_dropped},
};
static_assert(sizeof(kHcaErrors) / sizeof(kHcaErrors[0]) * sizeof(std::uint64_t) ==
                  sizeof(transport::HcaErrors),
              "a counter has no name");

constexpr Named<transport::HcaBulk> kHcaBulk[] = {
    {"lent", &transport::HcaBulk::lent},        {"lent_bytes", &transport::HcaBulk::lent_bytes},
    {"fetched", &transport::HcaBulk::fetched},  {"fetched_bytes", &transport::HcaBulk::fetched_bytes},
    {"bulk_stops", &transport::HcaBulk::stops},
};
static_assert(sizeof(kHcaBulk) / sizeof(kHcaBulk[0]) * sizeof(std::uint64_t) == sizeof(transport::HcaBulk),
              "a counter has no name");

constexpr Named<roce::Counters> kRocePackets[] = {
    {"duplicate_request", &roce::Counters::duplicate_request},
    {"out_of_sequence", &roce::Counters::out_of_sequence},
    {"resources_exceeded", &roce::Counters::resources_exceeded},
    {"answers_dropped", &roce::Counters::answers_dropped},
    {"packet_seq_err", &roce::Counters::packet_seq_err},
    {"implied_nak_seq_err", &roce::Counters::implied_nak_seq_err},
    {"rnr_nak_retry_err", &roce::Counters::rnr_nak_retry_err},
    {"bad_response", &roce::Counters::bad_response},
    {"repeated", &roce::Counters::repeated},
    {"np_ecn_marked", &roce::Counters::np_ecn_marked},
    {"np_cnp_sent", &roce::Counters::np_cnp_sent},
    {"rp_cnp_handled", &roce::Counters::rp_cnp_handled},
};
static_assert(sizeof(kRocePackets) / sizeof(kRocePackets[0]) * sizeof(std::uint64_t) ==
                  sizeof(roce::Counters),
              "a counter has no name");

constexpr Named<transport::roce::LinkCounters> kRoceLink[] = {
    {"sent_pkts", &transport::roce::LinkCounters::sent_pkts},
    {"sent_bytes", &transport::roce::LinkCounters::sent_bytes},
    {"rcvd_pkts", &transport::roce::LinkCounters::rcvd_pkts},
    {"rcvd_bytes", &transport::roce::LinkCounters::rcvd_bytes},
    {"rcvd_bad_length", &transport::roce::LinkCounters::rcvd_bad_length},
    {"link_full", &transport::roce::LinkCounters::link_full},
    {"send_errors", &transport::roce::LinkCounters::send_errors},
    {"link_ups", &transport::roce::LinkCounters::ups},
};
static_assert(sizeof(kRoceLink) / sizeof(kRoceLink[0]) * sizeof(std::uint64_t) ==
                  sizeof(transport::roce::LinkCounters),
              "a counter has no name");

constexpr Named<shard::LoopCounters> kShard[] = {
    {"turns", &shard::LoopCounters::turns},
    {"sleeps", &shard::LoopCounters::sleeps},
    {"timed_looks", &shard::LoopCounters::timed_looks},
    {"asleep_us", &shard::LoopCounters::asleep_us},
    {"tasks", &shard::LoopCounters::tasks},
    {"long_turns", &shard::LoopCounters::long_turns},
    {"long_turns_us", &shard::LoopCounters::long_turns_us},
    {"long_turns_cpu_us", &shard::LoopCounters::long_turns_cpu_us},
    {"long_turns_unblamed", &shard::LoopCounters::long_turns_unblamed},
};
static_assert(sizeof(kShard) / sizeof(kShard[0]) * sizeof(std::uint64_t) == sizeof(shard::LoopCounters),
              "a counter has no name");

using RingCounters = transport::Siblings::RingCounters;
constexpr Named<RingCounters> kRings[] = {
    {"revoked", &RingCounters::revoked},
    {"revoke_waits", &RingCounters::revoke_waits},
    {"lost", &RingCounters::lost},
};
static_assert(sizeof(kRings) / sizeof(kRings[0]) * sizeof(std::uint64_t) == sizeof(RingCounters),
              "a counter has no name");

}  // namespace

CounterGroup verbs_group(const verbs::Counters& counters) {
  return group_of("verbs", kVerbs, counters);
}

CounterGroup device_group(const device::Counters& counters) {
  return group_of("device", kDevice, counters);
}

CounterGroup command_error_group(const device::CommandErrors& counters) {
  return group_of("command_errors", kCommandError, counters);
}

CounterGroup budget_group(std::string_view name, const std::vector<BudgetUse>& budgets) {
  CounterGroup group{name, {}};
  for (const BudgetUse& each : budgets) group.counters.push_back({to_text(each.budget), each.refused});
  return group;
}

CounterGroup port_group(const fabric::PortCounters& counters) {
  const transport::Traffic& local = counters.sent_by(fabric::PathKind::kLocal);
  const transport::Traffic& tcp = counters.sent_by(fabric::PathKind::kTcp);
  const transport::Traffic& hca = counters.sent_by(fabric::PathKind::kHca);
  const transport::Traffic& roce = counters.sent_by(fabric::PathKind::kRoce);
  return {"port",
          {{"local_messages", local.messages},
           {"local_payload_bytes", local.payload_bytes},
           {"tcp_messages", tcp.messages},
           {"tcp_payload_bytes", tcp.payload_bytes},
           {"hca_messages", hca.messages},
           {"hca_payload_bytes", hca.payload_bytes},
           {"roce_messages", roce.messages},
           {"roce_payload_bytes", roce.payload_bytes},
           {"dropped_unknown_gid", counters.dropped_for(fabric::DropReason::kUnknownGid)},
           {"dropped_port_detached", counters.dropped_for(fabric::DropReason::kPortDetached)},
           {"dropped_link_down", counters.dropped_for(fabric::DropReason::kLinkDown)},
           {"dropped_foreign_source", counters.dropped_for(fabric::DropReason::kForeignSource)},
           {"dropped_no_path", counters.dropped_for(fabric::DropReason::kNoPath)},
           {"dropped_native_refused", counters.dropped_for(fabric::DropReason::kNativeRefused)}}};
}

CounterGroup transport_group(std::string_view name, const transport::Counters& counters) {
  return group_of(name, kTransport, counters);
}

std::vector<CounterGroup> roce_groups(const RoceCounts& counts) {
  CounterGroup packets = group_of("roce", kTransport, counts.messages);
  for (const Counter& each : group_of("roce", kRoceLink, counts.links).counters)
    packets.counters.push_back(each);
  for (const Counter& each : group_of("roce", kRocePackets, counts.packets).counters)
    packets.counters.push_back(each);
  const transport::RoceErrors& errors = counts.errors;
  packets.counters.push_back({"path_mtu_above_link", errors.path_mtu_above_link});
  const auto refused = [&](transport::Entry entry) {
    return errors.refused[static_cast<std::size_t>(entry)];
  };
  CounterGroup dropped{"roce_dropped",
                       {{"unknown_gid", refused(transport::Entry::kUnknownGid)},
                        {"foreign_source", refused(transport::Entry::kForeignSource)},
                        {"not_allowed", refused(transport::Entry::kNotAllowed)},
                        {"foreign_vlan", errors.foreign_vlan},
                        {"port_down", errors.port_down},
                        {"no_qp", errors.no_qp},
                        {"bad_address", errors.bad_address},
                        {"datagrams_dropped", errors.datagrams_dropped},
                        {"no_connection", errors.no_connection}}};
  for (std::size_t i = 0; i < roce::kDropReasons; ++i)
    dropped.counters.push_back({roce::name_of(static_cast<roce::DropReason>(i)), errors.bad_frames[i]});
  return {std::move(packets), std::move(dropped)};
}

CounterGroup tcp_group(const transport::Counters& counters, const transport::TcpErrors& errors) {
  CounterGroup group = group_of("tcp", kTransport, counters);
  for (const Counter& error : group_of("tcp", kTcpErrors, errors).counters) {
    group.counters.push_back(error);
  }
  return group;
}

CounterGroup hca_group(const HcaCounts& counts) {
  CounterGroup group = group_of("hca", kTransport, counts.messages);
  for (const Counter& one : group_of("hca", kHcaBulk, counts.bulk).counters) group.counters.push_back(one);
  for (const Counter& error : group_of("hca", kHcaErrors, counts.errors).counters)
    group.counters.push_back(error);
  return group;
}

CounterGroup shard_group(const shard::LoopCounters& counters) {
  return group_of(kShardCounters, kShard, counters);
}

CounterGroup ring_group(const RingCounters& counters) {
  return group_of(kRingCounters, kRings, counters);
}

}  // namespace pvrdma::snapshots
