// The API's answers about this host, as JSON texts and as schemas: each object is described once. Keys are
// stable: they are the product's contract with scripts (docs/api.md), and later versions may add some.
//
// Thread: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/adapter_control.h"
#include "control/model/views.h"
#include "control/plane/plane.h"
#include "control/schema/rules.h"
#include "control/snapshot.h"

namespace pvrdma::control {

struct Version {
  std::string_view version;
  std::string_view api = "v1";
};
template <>
inline constexpr auto kObject<Version> = record("Version", field("version", &Version::version),
                                                field("api", &Version::api));

struct ErrorAnswer {
  std::string_view error;
};
template <>
inline constexpr auto kObject<ErrorAnswer> = record("Error", field("error", &ErrorAnswer::error));

// --- Adapters and QPs ---

template <>
inline constexpr auto kObject<QemuProcess> = record("QemuProcess", field("version", &QemuProcess::version),
                                                    field("pid", &QemuProcess::pid));
template <>
inline constexpr auto kObject<UpgradedVmm> =
    record("UpgradedVmm", field("vm", &UpgradedVmm::vm), field("from", &UpgradedVmm::from),
           field("to", &UpgradedVmm::to),
           field("pause_us", &UpgradedVmm::pause_us)
               .noted(R"("description": "How long the VM stood; 0: it was paused, and is")"),
           field("qemu_us", &UpgradedVmm::qemu_us), field("restore_us", &UpgradedVmm::restore_us),
           field("adapter_us", &UpgradedVmm::adapter_us), field("state_bytes", &UpgradedVmm::state_bytes));

// A line of a checkpoint: how far QEMU is, at last how many bytes of state follow, or why there are none.
struct CheckpointLine {
  std::string vm;
  std::uint64_t ram_bytes = 0;
  std::uint64_t remaining_bytes = 0;
  std::uint64_t state_bytes = 0;  // not 0: behind this line
  std::uint64_t took_us = 0;
  QemuProcess qemu;
  std::string error;
};
template <>
inline constexpr auto kObject<CheckpointLine> =
    record("CheckpointLine", field("vm", &CheckpointLine::vm), field("ram_bytes", &CheckpointLine::ram_bytes),
           field("remaining_bytes", &CheckpointLine::remaining_bytes),
           field("state_bytes", &CheckpointLine::state_bytes), field("took_us", &CheckpointLine::took_us),
           field("qemu", &CheckpointLine::qemu), field("error", &CheckpointLine::error));
template <>
inline constexpr auto kObject<RestoredVm> = record("RestoredVm", field("vm", &RestoredVm::vm),
                                                   field("qemu", &RestoredVm::qemu),
                                                   field("took_us", &RestoredVm::took_us));

template <>
inline constexpr auto kObject<MotionState> = record(
    "Motion", field("id", &MotionState::id), field("vm", &MotionState::vm), field("from", &MotionState::from),
    field("to", &MotionState::to),
    field("state", &MotionState::state).noted(R"("enum": ["runs", "done", "failed"])"),
    field("phase", &MotionState::phase), field("error", &MotionState::error),
    field("since", &MotionState::since), field("ram_bytes", &MotionState::ram_bytes),
    field("remaining_bytes", &MotionState::remaining_bytes), field("page_bytes", &MotionState::page_bytes),
    field("state_bytes", &MotionState::state_bytes), field("took_us", &MotionState::took_us),
    field("pause_us", &MotionState::pause_us)
        .noted(R"("description": "How long the VM stood; what follows are its parts")"),
    field("freeze_us", &MotionState::freeze_us), field("pages_us", &MotionState::pages_us),
    field("state_us", &MotionState::state_us), field("memory_us", &MotionState::memory_us),
    field("commit_us", &MotionState::commit_us), field("go_on_us", &MotionState::go_on_us));

template <>
inline constexpr auto kObject<HcaCheck> =
    record("HcaCheck", field("device", &HcaCheck::device), field("mtu", &HcaCheck::mtu),
           field("gids", &HcaCheck::gids), field("gid", &HcaCheck::gid), field("max_qps", &HcaCheck::max_qps),
           field("max_work_requests", &HcaCheck::max_work_requests), field("max_sges", &HcaCheck::max_sges),
           field("max_cqes", &HcaCheck::max_cqes), field("max_regions", &HcaCheck::max_regions),
           field("max_region_bytes", &HcaCheck::max_region_bytes), field("max_reads", &HcaCheck::max_reads),
           field("memory_mib", &HcaCheck::memory_mib),
           field("register_untouched_us", &HcaCheck::register_untouched_us)
               .noted(R"("description": "For a GiB of memory, as the next two")"),
           field("register_us", &HcaCheck::register_us), field("deregister_us", &HcaCheck::deregister_us),
           field("sends", &HcaCheck::sends)
               .noted(R"("description": "Of 64 bytes, a second; what follows in bytes a second")"),
           field("send_bytes", &HcaCheck::send_bytes), field("read_bytes", &HcaCheck::read_bytes),
           field("long_read_bytes", &HcaCheck::long_read_bytes), field("read_ns", &HcaCheck::read_ns));

struct StateText {
  std::string text;
};
template <>
inline constexpr auto kObject<StateText> = record("StateText", field("text", &StateText::text));

// Lists of what has a name, as objects with those names.
struct CountersRule {
  Json write(const std::vector<Counter>& counters) const;
  Json write(const std::vector<Gauge>& gauges) const;
  Json schema(Components& components) const;
};
struct CounterGroupsRule {
  Json write(const std::vector<CounterGroup>& groups) const;
  Json write(const std::vector<PathUse>& paths) const;
  Json schema(Components& components) const;
};

template <>
inline constexpr auto kObject<BudgetUse> = record("Budget", field("use", &BudgetUse::use),
                                                  field("limit", &BudgetUse::limit),
                                                  field("refused", &BudgetUse::refused));
struct BudgetsRule {
  Json write(const std::vector<BudgetUse>& budgets) const;
  Json schema(Components& components) const;
};

template <>
inline constexpr auto kObject<GidSnapshot> = record(
    "Gid", field("index", &GidSnapshot::index), field("gid", &GidSnapshot::gid),
    field("roce", &GidSnapshot::roce),
    field("lost_to", &GidSnapshot::lost_to)
        .noted(
            R"("description": "The host that bound it at the same time and holds it instead; empty: this adapter holds it")"));

template <>
inline constexpr auto kObject<AdapterSnapshot> = record(
    "Adapter", field("name", &AdapterSnapshot::name),
    field("state", &AdapterSnapshot::state)
        .noted(R"("enum": ["off", "detached", "attached", "active", "failed"])"),
    field("mac", &AdapterSnapshot::mac), field("hardware_version", &AdapterSnapshot::hardware_version),
    field("roce", &AdapterSnapshot::roce),
    field("doorbells", &AdapterSnapshot::doorbells).noted(R"("enum": ["trapped", "mapped"])"),
    field("mtu", &AdapterSnapshot::mtu).noted(R"("description": "The port's active MTU, bytes")"),
    field("native_endpoints", &AdapterSnapshot::native_endpoints)
        .noted(R"("description": "\"on\", or \"off: \" and why; of the host's set-up, not of who answers")"),
    field("socket", &AdapterSnapshot::socket), field("link_up", &AdapterSnapshot::link_up),
    field("device_version", &AdapterSnapshot::device_version),
    field("driver_version", &AdapterSnapshot::driver_version), field("guest_os", &AdapterSnapshot::guest_os),
    field("memory_bytes", &AdapterSnapshot::memory_bytes),
    field("pinned_bytes", &AdapterSnapshot::pinned_bytes)
        .noted(R"("description": "Of memory_bytes: registered with the host's RDMA NIC")"),
    field("pinned_trouble", &AdapterSnapshot::pinned_trouble),
    field("tx_messages", &AdapterSnapshot::tx_messages), field("tx_bytes", &AdapterSnapshot::tx_bytes),
    field("rx_messages", &AdapterSnapshot::rx_messages), field("rx_bytes", &AdapterSnapshot::rx_bytes),
    field("gids", &AdapterSnapshot::gids), field("objects", &AdapterSnapshot::objects, CountersRule{}),
    field("budgets", &AdapterSnapshot::budgets, BudgetsRule{}),
    field("paths", &AdapterSnapshot::paths, CounterGroupsRule{}));

template <>
inline constexpr auto kObject<QpSnapshot> =
    record("Qp", field("adapter", &QpSnapshot::adapter), field("qpn", &QpSnapshot::qpn),
           field("type", &QpSnapshot::type), field("state", &QpSnapshot::state),
           field("local_gid", &QpSnapshot::local_gid), field("remote_gid", &QpSnapshot::remote_gid),
           field("remote_qpn", &QpSnapshot::remote_qpn), field("peer_host", &QpSnapshot::peer_host),
           field("path", &QpSnapshot::path), field("path_reason", &QpSnapshot::path_reason),
           field("tx_messages", &QpSnapshot::tx_messages), field("tx_bytes", &QpSnapshot::tx_bytes),
           field("rx_messages", &QpSnapshot::rx_messages), field("rx_bytes", &QpSnapshot::rx_bytes),
           field("retransmits", &QpSnapshot::retransmits));
// Empty `adapter`: all.
std::vector<QpSnapshot> qps_of(const Snapshot& snapshot, std::string_view adapter);

// The path of a QP that is connected.
struct PathView : QpSnapshot {};
template <>
inline constexpr auto kObject<PathView> =
    record("Path", field("adapter", &PathView::adapter), field("qpn", &PathView::qpn),
           field("local_gid", &PathView::local_gid), field("remote_gid", &PathView::remote_gid),
           field("remote_qpn", &PathView::remote_qpn), field("peer_host", &PathView::peer_host),
           field("path", &PathView::path), field("reason", &PathView::path_reason));
// `host`: this host's name, empty when it has none.
std::vector<PathView> paths_of(const Snapshot& snapshot, const std::string& host);

template <>
inline constexpr auto kObject<FaultCounts> = record("FaultCounts", field("messages", &FaultCounts::messages),
                                                    field("dropped", &FaultCounts::dropped),
                                                    field("duplicated", &FaultCounts::duplicated),
                                                    field("delayed", &FaultCounts::delayed),
                                                    field("reordered", &FaultCounts::reordered),
                                                    field("corrupted", &FaultCounts::corrupted));
// A fault with what it did so far.
struct FaultView : FaultWish {
  std::uint64_t id = 0;
  FaultCounts counts;
};
template <>
inline constexpr auto kObject<FaultView> = record(
    "Fault", field("id", &FaultView::id), field("adapter", &FaultView::adapter),
    field("drop", &FaultView::drop_ppm, ProbabilityRule{}),
    field("duplicate", &FaultView::duplicate_ppm, ProbabilityRule{}),
    field("delay", &FaultView::delay_ppm, ProbabilityRule{}),
    field("reorder", &FaultView::reorder_ppm, ProbabilityRule{}),
    field("corrupt", &FaultView::corrupt_ppm, ProbabilityRule{}), field("late_ms", &FaultView::late_ms),
    field("seed", &FaultView::seed), field("counts", &FaultView::counts));

// Counter groups beside the adapter's name, so no description says it all.
std::string stats_json(const Snapshot& snapshot, std::string_view adapter);
Json stats_schema(Components& components);
// Of a file.
Json capture_schema(Components& components);
// Of bytes that are no file of a known type.
Json bytes_schema(Components& components);

// --- The cluster as this host sees it ---

template <>
inline constexpr auto kObject<StoreState> = record(
    "StoreState", field("description", &StoreState::description), field("connected", &StoreState::connected),
    field("trouble", &StoreState::trouble), field("edits", &StoreState::edits),
    field("conflicts", &StoreState::conflicts), field("live_conflicts", &StoreState::live_conflicts),
    field("bad_records", &StoreState::bad_records), field("resyncs", &StoreState::resyncs),
    field("size_bytes", &StoreState::size_bytes), field("used_bytes", &StoreState::used_bytes),
    field("alarms", &StoreState::alarms),
    field("caretaker", &StoreState::caretaker)
        .noted(
            R"("description": "The host that makes the store forget old revisions; empty: somebody else does")"));
template <>
inline constexpr auto kObject<PeerSnapshot> = record("Peer", field("host", &PeerSnapshot::host, kName),
                                                     field("lanes_up", &PeerSnapshot::lanes_up),
                                                     field("sessions_up", &PeerSnapshot::sessions_up),
                                                     field("reconnects", &PeerSnapshot::reconnects),
                                                     field("trouble", &PeerSnapshot::trouble));
template <>
inline constexpr auto kObject<TcpSnapshot> = record("Tcp", field("listening", &TcpSnapshot::listening),
                                                    field("trouble", &TcpSnapshot::trouble),
                                                    field("peers", &TcpSnapshot::peers));
template <>
inline constexpr auto kObject<HcaPeerSnapshot> = record("HcaPeer",
                                                        field("host", &HcaPeerSnapshot::host, kName),
                                                        field("up", &HcaPeerSnapshot::up),
                                                        field("falls", &HcaPeerSnapshot::falls),
                                                        field("trouble", &HcaPeerSnapshot::trouble));
template <>
inline constexpr auto kObject<HcaSnapshot> = record("Hca", field("device", &HcaSnapshot::device),
                                                    field("trouble", &HcaSnapshot::trouble),
                                                    field("pinned_bytes", &HcaSnapshot::pinned_bytes),
                                                    field("peers", &HcaSnapshot::peers));
struct ClusterAnswer {
  std::string host;
  StoreState store;
  TcpSnapshot tcp;
  HcaSnapshot hca;
};
template <>
inline constexpr auto kObject<ClusterAnswer> = record("Cluster", field("host", &ClusterAnswer::host, kName),
                                                      field("store", &ClusterAnswer::store),
                                                      field("tcp", &ClusterAnswer::tcp),
                                                      field("hca", &ClusterAnswer::hca));

// --- Parts of hosts ---

struct AdvancedSetting {
  std::string_view path;
  std::string value;
  std::string_view type = "string";
  std::string_view default_value = "";
  std::string_view description = "VMkernel adapter whose address PVRDMA traffic between hosts uses";
};
template <>
inline constexpr auto kObject<AdvancedSetting> = record("AdvancedSetting",
                                                        field("path", &AdvancedSetting::path),
                                                        field("type", &AdvancedSetting::type),
                                                        field("value", &AdvancedSetting::value),
                                                        field("default", &AdvancedSetting::default_value),
                                                        field("description", &AdvancedSetting::description));

struct FirewallRule {
  std::string_view ruleset;
  std::string_view direction;  // "Inbound", "Outbound"
  std::uint16_t port_begin = 0;
  std::uint16_t port_end = 0;
  std::string_view protocol = "TCP";
  std::string_view port_type = "Dst";
};
template <>
inline constexpr auto kObject<FirewallRule> =
    record("Rule", field("ruleset", &FirewallRule::ruleset),
           field("direction", &FirewallRule::direction).noted(R"("enum": ["Inbound", "Outbound"])"),
           field("protocol", &FirewallRule::protocol), field("port_type", &FirewallRule::port_type),
           field("port_begin", &FirewallRule::port_begin), field("port_end", &FirewallRule::port_end));

struct RdmaStats {
  std::string device;
  std::map<std::string, std::uint64_t> stats;
};
template <>
inline constexpr auto kObject<RdmaStats> = record("RdmaStats", field("device", &RdmaStats::device),
                                                  field("stats", &RdmaStats::stats));

}  // namespace pvrdma::control
