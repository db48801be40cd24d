// The API's answers about this host, as JSON texts and as schemas. Each object is described once. Keys are
// stable, because scripts depend on them (docs/api.md). Later versions may add keys.
//
// Thread: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/captures.h"
#include "adapters/faults.h"
#include "api/router.h"
#include "control/model/configuration_changes.h"
#include "control/model/views.h"
#include "control/plane/plane.h"
#include "motion/checkpoint_service.h"
#include "motion/motion_service.h"
#include "motion/upgrade_service.h"
#include "schema/rules.h"
#include "snapshots/snapshot.h"
#include "transport/hca/checker.h"

namespace pvrdma::api {

struct Version {
  std::string_view version;
  std::string_view api = "v1";
  std::optional<std::string> host;    // null: the daemon is not a member of a cluster
  std::string_view role;              // of the client that asks
  std::vector<std::string> features;  // what not every daemon has
};

struct ErrorAnswer {
  std::string error;
  std::optional<std::string> field = std::nullopt;    // the body's member that is wrong
  std::optional<std::uint64_t> index = std::nullopt;  // of a batch: the refused edit
};
// Members without a value are left out.
std::string error_text(const ErrorAnswer& answer);
// `text` is that of error_text().
ErrorAnswer error_from(const std::string& text);

// What a batch of edits is answered with.
struct BatchAnswer {
  bool dry_run = false;
  std::uint64_t revision = 0;
  std::vector<control::ObjectChange> changes;
  std::vector<Json> answers;  // each edit's own
};

// --- Adapters and QPs ---

struct StateText {
  std::string text;
};

// Lists of named values, written as objects with these names as keys.
struct CountersRule {
  Json write(const std::vector<snapshots::Counter>& counters) const;
  Json write(const std::vector<snapshots::Gauge>& gauges) const;
  Json schema(Components& components) const;
};
struct CounterGroupsRule {
  Json write(const std::vector<snapshots::CounterGroup>& groups) const;
  Json write(const std::vector<snapshots::PathUse>& paths) const;
  Json schema(Components& components) const;
};

struct BudgetsRule {
  Json write(const std::vector<BudgetUse>& budgets) const;
  Json schema(Components& components) const;
};

struct AdapterBudgets {
  std::string name;
  std::vector<BudgetUse> budgets;
};

struct BudgetsAnswer {
  std::vector<AdapterBudgets> adapters;
  std::vector<BudgetUse> totals;  // of all adapters together
};

// Which QPs are wanted. Without a limit: all of them.
struct QpWish {
  std::string adapter;  // empty: all adapters
  std::string path;     // as in PathView; empty: also QPs that are not connected
  std::uint32_t after = 0;
  std::optional<std::size_t> limit;  // the first ones by QPN whose QPN is greater than `after`
};
std::vector<snapshots::QpSnapshot> qps_of(const snapshots::Snapshot& snapshot, const QpWish& wish);

// The path of a connected QP.
struct PathView : snapshots::QpSnapshot {};
// `host` is this host's name; empty if it has none.
std::vector<PathView> paths_of(const snapshots::Snapshot& snapshot, const std::string& host);

// Connections of one adapter that take the same path, for the same reason, to the same host.
struct PathCount {
  std::string adapter;
  std::string path;  // the next three as in PathView
  std::string reason;
  std::string peer_host;
  std::uint64_t connections = 0;
};
std::vector<PathCount> path_counts_of(const snapshots::Snapshot& snapshot, const std::string& host);

// Written by hand, because the counter groups stand beside the adapter's name in one object.
std::string stats_json(const snapshots::Snapshot& snapshot, std::string_view adapter);
Json stats_schema(Components& components);
// The schema of a file.
Json capture_schema(Components& components);
// The schema of server-sent events.
Json events_schema(Components& components);
// The schema of a file whose type depends on its name.
Json file_schema(Components& components);
// The schema of bytes that are not a file of a known type.
Json bytes_schema(Components& components);

// --- The cluster as this host sees it ---

struct ClusterHost {
  std::string name;
  bool self = false;    // it is the host that answers
  std::string trouble;  // why it has no traffic to other hosts; empty: it has
};

struct ClusterAnswer {
  std::string host;
  std::vector<ClusterHost> hosts;
  control::StoreState store;
  transport::TcpState tcp;
  transport::HcaState hca;
};

// --- Parts of hosts ---

struct AdvancedSetting {
  std::string_view path;
  std::string value;
  std::string_view type = "string";
  std::string_view default_value = "";
  std::string_view description = "VMkernel adapter whose address PVRDMA traffic between hosts uses";
};

struct FirewallRule {
  std::string_view ruleset;
  std::string_view direction;  // "Inbound", "Outbound"
  std::uint16_t port_begin = 0;
  std::uint16_t port_end = 0;
  std::string_view protocol = "TCP";
  std::string_view port_type = "Dst";
};

struct RdmaStats {
  std::string device;
  std::map<std::string, std::uint64_t> stats;
};

}  // namespace pvrdma::api

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<api::Version> =
    record("Version", field("version", &api::Version::version), field("api", &api::Version::api),
           field("host", &api::Version::host).noted(R"("nullable": true)"),
           field("role", &api::Version::role), field("features", &api::Version::features));

template <>
inline constexpr auto kObject<api::ErrorAnswer> =
    record("Error", field("error", &api::ErrorAnswer::error).required(),
           field("field", &api::ErrorAnswer::field)
               .noted(R"("description": "The member of the body that is wrong, if it is one")"),
           field("index", &api::ErrorAnswer::index)
               .noted(R"("description": "Of a batch: the refused edit, from 0")"));

template <>
inline constexpr auto kObject<api::BatchAnswer> = record(
    "BatchAnswer", field("dry_run", &api::BatchAnswer::dry_run),
    field("revision", &api::BatchAnswer::revision)
        .noted(R"("description": "Has the edits; of a dry run: the one on which they were tried")"),
    field("changes", &api::BatchAnswer::changes),
    field("answers", &api::BatchAnswer::answers, ListRule<AnyRule>{})
        .noted(R"("description": "What each edit would be answered with if it were alone; null: too long")"));

template <>
inline constexpr auto kObject<motion::UpgradeReport> =
    record("UpgradedVmm", field("vm", &motion::UpgradeReport::vm),
           field("from", &motion::UpgradeReport::from), field("to", &motion::UpgradeReport::to),
           field("pause_us", &motion::UpgradeReport::pause, MicrosecondsRule{})
               .noted(R"("description": "How long the VM was paused; 0: it was paused already")"),
           field("qemu_us", &motion::UpgradeReport::qemu, MicrosecondsRule{}),
           field("restore_us", &motion::UpgradeReport::restore, MicrosecondsRule{}),
           field("adapter_us", &motion::UpgradeReport::adapter, MicrosecondsRule{}),
           field("state_bytes", &motion::UpgradeReport::state_bytes));

template <>
inline constexpr auto kObject<motion::RestoreReport> =
    record("RestoredVm", field("vm", &motion::RestoreReport::vm), field("qemu", &motion::RestoreReport::qemu),
           field("took_us", &motion::RestoreReport::took, MicrosecondsRule{}));

template <>
inline constexpr auto kObject<motion::MotionState> =
    record("Motion", field("id", &motion::MotionState::id), field("vm", &motion::MotionState::vm),
           field("from", &motion::MotionState::from), field("to", &motion::MotionState::to),
           field("state", &motion::MotionState::state).noted(R"("enum": ["runs", "done", "failed"])"),
           field("phase", &motion::MotionState::phase), field("error", &motion::MotionState::error),
           field("since", &motion::MotionState::since), field("ram_bytes", &motion::MotionState::ram_bytes),
           field("remaining_bytes", &motion::MotionState::remaining_bytes),
           field("page_bytes", &motion::MotionState::page_bytes),
           field("state_bytes", &motion::MotionState::state_bytes),
           field("took_us", &motion::MotionReport::took, MicrosecondsRule{}),
           field("pause_us", &motion::MotionReport::pause, MicrosecondsRule{})
               .noted(R"("description": "How long the VM was paused; the members below are its parts")"),
           field("freeze_us", &motion::MotionReport::freeze, MicrosecondsRule{}),
           field("pages_us", &motion::MotionReport::pages, MicrosecondsRule{}),
           field("state_us", &motion::MotionReport::state, MicrosecondsRule{}),
           field("memory_us", &motion::MotionReport::memory, MicrosecondsRule{}),
           field("commit_us", &motion::MotionReport::commit, MicrosecondsRule{}),
           field("go_on_us", &motion::MotionReport::go_on, MicrosecondsRule{}));

template <>
inline constexpr auto kObject<transport::HcaCheck> = record(
    "HcaCheck", field("device", &transport::HcaCheck::device), field("mtu", &transport::HcaCheck::mtu),
    field("gids", &transport::HcaCheck::gids), field("gid", &transport::HcaCheck::gid),
    field("max_qps", &transport::HcaCheck::max_qps),
    field("max_work_requests", &transport::HcaCheck::max_work_requests),
    field("max_sges", &transport::HcaCheck::max_sges), field("max_cqes", &transport::HcaCheck::max_cqes),
    field("max_regions", &transport::HcaCheck::max_regions),
    field("max_region_bytes", &transport::HcaCheck::max_region_bytes),
    field("max_reads", &transport::HcaCheck::max_reads),
    field("memory_mib", &transport::HcaCheck::memory_mib),
    field("register_untouched_us", &transport::HcaCheck::register_untouched_us)
        .noted(R"("description": "For 1 GiB of memory, like the next two")"),
    field("register_us", &transport::HcaCheck::register_us),
    field("deregister_us", &transport::HcaCheck::deregister_us),
    field("sends", &transport::HcaCheck::sends)
        .noted(R"("description": "SENDs of 64 bytes per second; the next three are bytes per second")"),
    field("send_bytes", &transport::HcaCheck::send_bytes),
    field("read_bytes", &transport::HcaCheck::read_bytes),
    field("long_read_bytes", &transport::HcaCheck::long_read_bytes),
    field("read_ns", &transport::HcaCheck::read_ns));

template <>
inline constexpr auto kObject<api::StateText> = record("StateText", field("text", &api::StateText::text));

template <>
inline constexpr auto kObject<BudgetUse> = record("Budget", field("use", &BudgetUse::use),
                                                  field("limit", &BudgetUse::limit),
                                                  field("refused", &BudgetUse::refused));

template <>
inline constexpr auto kObject<api::AdapterBudgets> = record("AdapterBudgets",
                                                            field("name", &api::AdapterBudgets::name),
                                                            field("budgets", &api::AdapterBudgets::budgets,
                                                                  api::BudgetsRule{}));

template <>
inline constexpr auto kObject<api::BudgetsAnswer> =
    record("HostBudgets", field("adapters", &api::BudgetsAnswer::adapters),
           field("totals", &api::BudgetsAnswer::totals, api::BudgetsRule{})
               .noted(R"("description": "Of all adapters of the host together")"));

template <>
inline constexpr auto kObject<snapshots::GidSnapshot> = record(
    "Gid", field("index", &snapshots::GidSnapshot::index), field("gid", &snapshots::GidSnapshot::gid),
    field("roce", &snapshots::GidSnapshot::roce),
    field("lost_to", &snapshots::GidSnapshot::lost_to)
        .noted(
            R"("description": "The host that bound it at the same time and holds it instead; empty: this adapter holds it")"));

template <>
inline constexpr auto kObject<snapshots::AdapterSnapshot> = record(
    "Adapter", field("name", &snapshots::AdapterSnapshot::name),
    field("state", &snapshots::AdapterSnapshot::state)
        .noted(R"("enum": ["off", "detached", "attached", "active", "failed"])"),
    field("mac", &snapshots::AdapterSnapshot::mac),
    field("hardware_version", &snapshots::AdapterSnapshot::hardware_version),
    field("roce", &snapshots::AdapterSnapshot::roce),
    field("doorbells", &snapshots::AdapterSnapshot::doorbells).noted(R"("enum": ["trapped", "mapped"])"),
    field("mtu", &snapshots::AdapterSnapshot::mtu).noted(R"("description": "The port's active MTU, bytes")"),
    field("native_endpoints", &snapshots::AdapterSnapshot::native_endpoints)
        .noted(
            R"("description": "\"on\", or \"off: \" and the reason; about the host's set-up, not about which endpoints answer")"),
    field("socket", &snapshots::AdapterSnapshot::socket),
    field("link_up", &snapshots::AdapterSnapshot::link_up),
    field("device_version", &snapshots::AdapterSnapshot::device_version),
    field("driver_version", &snapshots::AdapterSnapshot::driver_version),
    field("guest_os", &snapshots::AdapterSnapshot::guest_os),
    field("trouble", &snapshots::AdapterSnapshot::trouble)
        .noted(
            R"("description": "Why the guest's driver cannot work, or why memory of its VM is missing; else empty")"),
    field("memory_bytes", &snapshots::AdapterSnapshot::memory_bytes),
    field("pinned_bytes", &snapshots::AdapterSnapshot::pinned_bytes)
        .noted(R"("description": "The part of memory_bytes that is registered with the host's RDMA NIC")"),
    field("pinned_trouble", &snapshots::AdapterSnapshot::pinned_trouble),
    field("tx_messages", &snapshots::AdapterSnapshot::tx_messages),
    field("tx_bytes", &snapshots::AdapterSnapshot::tx_bytes),
    field("rx_messages", &snapshots::AdapterSnapshot::rx_messages),
    field("rx_bytes", &snapshots::AdapterSnapshot::rx_bytes),
    field("offences", &snapshots::AdapterSnapshot::offences)
        .noted(R"("description": "Turns of its shard that it held up for 20 ms or longer")"),
    field("offences_us", &snapshots::AdapterSnapshot::offences_us),
    field("gids", &snapshots::AdapterSnapshot::gids),
    field("objects", &snapshots::AdapterSnapshot::objects, api::CountersRule{}),
    field("budgets", &snapshots::AdapterSnapshot::budgets, api::BudgetsRule{}),
    field("paths", &snapshots::AdapterSnapshot::paths, api::CounterGroupsRule{}));

template <>
inline constexpr auto kObject<snapshots::QpSnapshot> =
    record("Qp", field("adapter", &snapshots::QpSnapshot::adapter), field("qpn", &snapshots::QpSnapshot::qpn),
           field("type", &snapshots::QpSnapshot::type), field("state", &snapshots::QpSnapshot::state),
           field("local_gid", &snapshots::QpSnapshot::local_gid),
           field("remote_gid", &snapshots::QpSnapshot::remote_gid),
           field("remote_qpn", &snapshots::QpSnapshot::remote_qpn),
           field("peer_host", &snapshots::QpSnapshot::peer_host), field("path", &snapshots::QpSnapshot::path),
           field("path_reason", &snapshots::QpSnapshot::path_reason),
           field("tx_messages", &snapshots::QpSnapshot::tx_messages),
           field("tx_bytes", &snapshots::QpSnapshot::tx_bytes),
           field("rx_messages", &snapshots::QpSnapshot::rx_messages),
           field("rx_bytes", &snapshots::QpSnapshot::rx_bytes),
           field("retransmits", &snapshots::QpSnapshot::retransmits));

template <>
inline constexpr auto kObject<api::PathView> =
    record("Path", field("adapter", &api::PathView::adapter), field("qpn", &api::PathView::qpn),
           field("local_gid", &api::PathView::local_gid), field("remote_gid", &api::PathView::remote_gid),
           field("remote_qpn", &api::PathView::remote_qpn), field("peer_host", &api::PathView::peer_host),
           field("path", &api::PathView::path), field("reason", &api::PathView::path_reason));

template <>
inline constexpr auto kObject<api::PathCount> = record("PathCount",
                                                       field("adapter", &api::PathCount::adapter),
                                                       field("path", &api::PathCount::path),
                                                       field("reason", &api::PathCount::reason),
                                                       field("peer_host", &api::PathCount::peer_host),
                                                       field("connections", &api::PathCount::connections));

template <>
inline constexpr auto kObject<adapters::CaptureState> = record(
    "RunningCapture", field("id", &adapters::CaptureState::id),
    field("adapter", &adapters::CaptureState::adapter), field("filter", &adapters::CaptureState::filter),
    field("snaplen", &adapters::CaptureState::snap_bytes),
    field("count", &adapters::CaptureState::frames_max), field("duration", &adapters::CaptureState::seconds),
    field("started_s", &adapters::CaptureState::started_s).noted(R"("description": "In seconds since 1970")"),
    field("sent_bytes", &adapters::CaptureState::sent_bytes)
        .noted(
            R"("description": "Bytes of the file that are made so far; the client may not have all of them yet")"),
    field("dropped", &adapters::CaptureState::dropped)
        .noted(R"("description": "Frames that came faster than the reader took them")"));

template <>
inline constexpr auto kObject<adapters::FaultCounts> = record(
    "FaultCounts", field("messages", &adapters::FaultCounts::messages),
    field("dropped", &adapters::FaultCounts::dropped),
    field("duplicated", &adapters::FaultCounts::duplicated),
    field("delayed", &adapters::FaultCounts::delayed), field("reordered", &adapters::FaultCounts::reordered),
    field("corrupted", &adapters::FaultCounts::corrupted));

template <>
inline constexpr auto kObject<adapters::FaultState> =
    record("Fault", field("id", &adapters::FaultState::id), field("adapter", &adapters::FaultState::adapter),
           field("drop", &adapters::FaultState::drop_ppm, ProbabilityRule{}),
           field("duplicate", &adapters::FaultState::duplicate_ppm, ProbabilityRule{}),
           field("delay", &adapters::FaultState::delay_ppm, ProbabilityRule{}),
           field("reorder", &adapters::FaultState::reorder_ppm, ProbabilityRule{}),
           field("corrupt", &adapters::FaultState::corrupt_ppm, ProbabilityRule{}),
           field("late_ms", &adapters::FaultState::late_ms), field("seed", &adapters::FaultState::seed),
           field("counts", &adapters::FaultState::counts));

template <>
inline constexpr auto kObject<control::StoreState> = record(
    "StoreState", field("description", &control::StoreState::description),
    field("connected", &control::StoreState::connected), field("trouble", &control::StoreState::trouble),
    field("edits", &control::StoreState::edits), field("conflicts", &control::StoreState::conflicts),
    field("live_conflicts", &control::StoreState::live_conflicts),
    field("bad_records", &control::StoreState::bad_records), field("resyncs", &control::StoreState::resyncs),
    field("size_bytes", &control::StoreState::size_bytes),
    field("used_bytes", &control::StoreState::used_bytes), field("alarms", &control::StoreState::alarms),
    field("caretaker", &control::StoreState::caretaker)
        .noted(
            R"("description": "The host that makes the store forget old revisions; empty: no host does")"));

template <>
inline constexpr auto kObject<transport::TcpPeerState> =
    record("Peer", field("host", &transport::TcpPeerState::name, kName),
           field("lanes_up", &transport::TcpPeerState::lanes_up),
           field("sessions_up", &transport::TcpPeerState::sessions_up),
           field("reconnects", &transport::TcpPeerState::reconnects),
           field("trouble", &transport::TcpPeerState::trouble));

template <>
inline constexpr auto kObject<transport::TcpState> =
    record("Tcp", field("listening", &transport::TcpState::listening),
           field("trouble", &transport::TcpState::trouble), field("peers", &transport::TcpState::peers));

template <>
inline constexpr auto kObject<transport::HcaPeerState> = record(
    "HcaPeer", field("host", &transport::HcaPeerState::name, kName),
    field("up", &transport::HcaPeerState::is_up), field("pipes", &transport::HcaPeerState::pipes),
    field("falls", &transport::HcaPeerState::falls), field("trouble", &transport::HcaPeerState::trouble));

template <>
inline constexpr auto kObject<transport::HcaState> = record(
    "Hca", field("device", &transport::HcaState::device), field("trouble", &transport::HcaState::trouble),
    field("pinned_bytes", &transport::HcaState::pinned_bytes), field("peers", &transport::HcaState::peers));

template <>
inline constexpr auto kObject<api::ClusterHost> = record("ClusterHost",
                                                         field("name", &api::ClusterHost::name, kName),
                                                         field("self", &api::ClusterHost::self),
                                                         field("trouble", &api::ClusterHost::trouble));

template <>
inline constexpr auto kObject<api::ClusterAnswer> = record("Cluster",
                                                           field("host", &api::ClusterAnswer::host, kName),
                                                           field("hosts", &api::ClusterAnswer::hosts),
                                                           field("store", &api::ClusterAnswer::store),
                                                           field("tcp", &api::ClusterAnswer::tcp),
                                                           field("hca", &api::ClusterAnswer::hca));

template <>
inline constexpr auto kObject<api::AdvancedSetting> = record(
    "AdvancedSetting", field("path", &api::AdvancedSetting::path), field("type", &api::AdvancedSetting::type),
    field("value", &api::AdvancedSetting::value), field("default", &api::AdvancedSetting::default_value),
    field("description", &api::AdvancedSetting::description));

template <>
inline constexpr auto kObject<api::FirewallRule> = record(
    "Rule", field("ruleset", &api::FirewallRule::ruleset),
    field("direction", &api::FirewallRule::direction).noted(R"("enum": ["Inbound", "Outbound"])"),
    field("protocol", &api::FirewallRule::protocol), field("port_type", &api::FirewallRule::port_type),
    field("port_begin", &api::FirewallRule::port_begin), field("port_end", &api::FirewallRule::port_end));

template <>
inline constexpr auto kObject<api::RdmaStats> = record("RdmaStats", field("device", &api::RdmaStats::device),
                                                       field("stats", &api::RdmaStats::stats));

}  // namespace pvrdma::schema
