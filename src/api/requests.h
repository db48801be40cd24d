// The bodies of the API's requests: their allowed and required members. Bodies are read strictly, and
// /openapi.json is made from the same descriptions. Further rules for values, and for combinations of values,
// are in the model (model/edits.h).
//
// Thread: values.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "adapters/captures.h"
#include "adapters/faults.h"
#include "api/router.h"
#include "control/model/edits.h"
#include "control/model/objects.h"
#include "motion/checkpoint_service.h"
#include "motion/motion_service.h"
#include "motion/upgrade_service.h"
#include "transport/hca/checker.h"
#include "vocabulary/hardware_version.h"

namespace pvrdma::api {

inline constexpr int kBodyDepthMax = 4;

// Error: the first mistake in the body. An empty body counts as an empty object.
Result<schema::ParsedJson> parse_body(const Call& call, int depth_max);
Failure mistaken(const schema::Mistake& mistake);
template <schema::Described Body>
Result<Body> body_of(const Call& call, int depth_max = kBodyDepthMax) {
  const auto json = parse_body(call, depth_max);
  if (!json) return Failure(json.error());
  Body body;
  schema::Reader reader;
  read(reader, *json, body);
  if (reader.failed()) return mistaken(*reader.mistake());
  return body;
}

// A name that the model checks.
inline constexpr schema::TextRule kModelsName{"a string", nullptr, schema::kName.schema_name,
                                              schema::kName.pattern};
inline constexpr schema::NumberRule kVmHardwareVersion{kVmHardwareVersionMin, kVmHardwareVersionMax};
inline constexpr schema::NumberRule kMemoryMib{1, UINT32_MAX};
inline constexpr schema::NumberRule kSnaplen{1, 262144};
inline constexpr schema::NumberRule kLateMs{1, 1000};

struct Nothing {};

struct LinkBody {
  bool up = false;
};

struct ShardBody {
  std::uint32_t shard = 0;
};

struct NewVmk {
  std::string name;
  std::string address;
};

struct VmkAddress {
  std::string address;
};

struct Firewall {
  bool enabled = true;
};

struct AdvancedValue {
  std::string path;
  std::string value;
};

struct RulesetChange {
  std::optional<bool> enabled;
  std::optional<bool> allow_all;
  std::optional<std::vector<std::string>> allowed;
};

struct Network {
  std::string network;
};

struct Uplink {
  std::string vmnic;
};

struct NewPortGroup : control::PortGroup {};

// Creates the VM together with its adapter, or neither of them.
struct NewVmBody : control::edits::NewVm {
  NewVmBody() { host = "self"; }
  std::optional<control::edits::NewAdapter> adapter;
};

struct Upgrade {
  std::uint32_t hardware_version = 0;
};

inline constexpr std::size_t kBatchEditsMax = 64;
inline constexpr std::size_t kBatchAnswersBytesMax = 1U << 20;  // of all answers to a batch's edits together
inline constexpr int kBatchDepthMax = kBodyDepthMax + 3;        // bodies of edits in a list in an object

enum class EditMethod : std::uint8_t { kPost, kPut, kPatch, kDelete };

struct BatchEdit {
  EditMethod method{};
  std::string path;
  std::string body;  // an object in JSON; empty: it has none
};

struct BatchBody {
  std::vector<BatchEdit> edits;
  bool dry_run = false;
  std::optional<std::uint64_t> revision;
};

// The body of another request, kept as JSON text.
struct BodyRule {
  void read(schema::Reader& reader, const schema::ParsedJson& json, std::string& out) const;
  Json schema(Components&) const { return {{"type", "object"}}; }
};

}  // namespace pvrdma::api

namespace pvrdma {

template <>
inline constexpr std::array kWords<api::EditMethod>{
    Word{"POST", api::EditMethod::kPost}, Word{"PUT", api::EditMethod::kPut},
    Word{"PATCH", api::EditMethod::kPatch}, Word{"DELETE", api::EditMethod::kDelete}};

}  // namespace pvrdma

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<api::BatchEdit> = request(
    "Edit",
    field("method", &api::BatchEdit::method, WordRule<api::EditMethod>{"method of an edit"}).required(),
    field("path", &api::BatchEdit::path).required(R"("/v1/dvs")"),
    field("body", &api::BatchEdit::body, api::BodyRule{}));

template <>
inline constexpr auto kObject<api::BatchBody> = request(
    "Batch",
    field("edits", &api::BatchBody::edits, ListRule<ObjectRule<api::BatchEdit>>{{}, api::kBatchEditsMax})
        .required(),
    field("dry_run", &api::BatchBody::dry_run)
        .noted(R"("default": false, "description": "Nothing is changed")"),
    field("revision", &api::BatchBody::revision)
        .noted(R"("description": "Refused with 409 if the configuration has another one; default: any")"));

template <>
inline constexpr auto kObject<api::Nothing> = request("Nothing");

template <>
inline constexpr auto kObject<api::LinkBody> = request("Link", field("up", &api::LinkBody::up).required());

template <>
inline constexpr auto kObject<api::ShardBody> = request("AdapterShard",
                                                        field("shard", &api::ShardBody::shard).required());

template <>
inline constexpr auto kObject<transport::HcaCheckWish> =
    request("HcaCheckRequest",
            field("device", &transport::HcaCheckWish::device)
                .noted(R"("description": "Its name in libibverbs; default: the only device")"),
            field("memory_mib", &transport::HcaCheckWish::memory_mib, NumberRule{1, 65536}));

// The adapter is named by the path.
template <>
inline constexpr auto kObject<adapters::CaptureWish> =
    request("Capture",
            field("filter", &adapters::CaptureWish::filter)
                .noted(R"("description": "See pvrdmactl(1); default: all messages")"),
            field("snaplen", &adapters::CaptureWish::snap_bytes, api::kSnaplen)
                .noted(R"("default": 262144, "description": "Bytes kept of each frame")"),
            field("count", &adapters::CaptureWish::frames_max)
                .noted(R"("default": 0, "description": "Ends after this number of frames; 0: never")"),
            field("duration", &adapters::CaptureWish::seconds)
                .noted(R"("default": 0, "description": "Ends after this number of seconds; 0: never")"));

template <>
inline constexpr auto kObject<adapters::FaultWish> = request(
    "NewFault", field("adapter", &adapters::FaultWish::adapter, api::kModelsName).required(R"("VM-01")"),
    field("drop", &adapters::FaultWish::drop_ppm, ProbabilityRule{}),
    field("duplicate", &adapters::FaultWish::duplicate_ppm, ProbabilityRule{}),
    field("delay", &adapters::FaultWish::delay_ppm, ProbabilityRule{}),
    field("reorder", &adapters::FaultWish::reorder_ppm, ProbabilityRule{}),
    field("corrupt", &adapters::FaultWish::corrupt_ppm, ProbabilityRule{}),
    field("late_ms", &adapters::FaultWish::late_ms, api::kLateMs)
        .noted(
            R"("default": 1, "description": "The most that a delayed, reordered or duplicated message is late")"),
    field("seed", &adapters::FaultWish::seed).noted(R"("description": "Default: a random one")"));

// Members that the path already names are not in the body.
template <>
inline constexpr auto kObject<motion::UpgradeWish> = request(
    "UpgradeVmm",
    field("monitor", &motion::UpgradeWish::monitor)
        .noted(R"("description": "QMP socket of the QEMU that runs the VM; default: the one in qemu-args")"),
    field("new_monitor", &motion::UpgradeWish::new_monitor)
        .noted(
            R"("description": "QMP socket of the QEMU that is to run the VM; default: the one in qemu-args with incoming=true")"));

template <>
inline constexpr auto kObject<motion::CheckpointWish> =
    request("NewCheckpoint",
            field("file", &motion::CheckpointWish::file).required(R"("/var/lib/vms/VM-01.checkpoint")"),
            field("monitor", &motion::CheckpointWish::monitor)
                .noted(R"("description": "QMP socket of the VM's QEMU; default: as qemu-args has it")"));

// "pvrdmad" (the default) or "libvirt".
struct LeaderRule {
  void read(Reader& reader, const ParsedJson& json, motion::Leader& out) const;
  Json schema(Components& components) const { return TextRule{}.schema(components); }
};
template <>
inline constexpr auto kObject<motion::MotionWish> = request(
    "NewMotion", field("to", &motion::MotionWish::to).required(R"("esx-02")"),
    field("leader", &motion::MotionWish::leader, LeaderRule{})
        .noted(R"("enum": ["pvrdmad", "libvirt"], "description": "Who makes QEMU migrate; default: pvrdmad. )"
               R"(libvirt must begin in the phase \"waits for QEMU\", and must leave the VM paused there")"),
    field("max_pause_ms", &motion::MotionWish::max_pause, WholeRule<std::chrono::milliseconds>{})
        .noted(
            R"("description": "The longest pause of the VM; the VM stays if it would be longer; default: 500")"),
    field("patience_s", &motion::MotionWish::patience, WholeRule<std::chrono::seconds>{})
        .noted(
            R"("description": "How long to wait for a QEMU on the other host, and for the guest's memory; default: 600")"),
    field("monitor", &motion::MotionWish::monitor)
        .noted(R"("description": "QMP socket of the VM's QEMU; default: as qemu-args has it")"));

template <>
inline constexpr auto kObject<api::NewVmk> =
    request("NewVmk", field("name", &api::NewVmk::name).required(R"("vmk2")"),
            field("address", &api::NewVmk::address).required(R"("10.0.0.1")"));

template <>
inline constexpr auto kObject<api::VmkAddress> =
    request("VmkAddress", field("address", &api::VmkAddress::address).required(R"("10.0.0.1")"));

template <>
inline constexpr auto kObject<api::Firewall> = request("Firewall",
                                                       field("enabled", &api::Firewall::enabled).required());

template <>
inline constexpr auto kObject<api::AdvancedValue> =
    request("AdvancedValue", field("path", &api::AdvancedValue::path).required(R"("/Net/PVRDMAVmknic")"),
            field("value", &api::AdvancedValue::value).required());

template <>
inline constexpr auto kObject<api::RulesetChange> = request(
    "RulesetChange", field("enabled", &api::RulesetChange::enabled),
    field("allow_all", &api::RulesetChange::allow_all), field("allowed", &api::RulesetChange::allowed));

template <>
inline constexpr auto kObject<api::Network> =
    request("Network", field("network", &api::Network::network).required(R"("10.0.0.0/24")"));

template <>
inline constexpr auto kObject<control::edits::NewDvs> =
    request("NewDvs", field("name", &control::edits::NewDvs::name, api::kModelsName).required(),
            field("version", &control::edits::NewDvs::version).noted(R"("default": "8.0.0")"),
            field("uplinks", &control::edits::NewDvs::uplinks, NumberRule{1, control::edits::kUplinksMax})
                .noted(R"("default": 2)"));

template <>
inline constexpr auto kObject<api::Uplink> =
    request("Uplink", field("vmnic", &api::Uplink::vmnic).required(R"("vmnic0")"));

template <>
inline constexpr auto kObject<api::NewPortGroup> =
    request("NewPortGroup", field("vlan", &api::NewPortGroup::vlan, kVlan).noted(R"("default": 0)"),
            field("mtu", &api::NewPortGroup::mtu, kNetworkMtu).noted(R"("default": 1500)"),
            field("native_endpoints", &api::NewPortGroup::native_endpoints)
                .noted(R"("description": "Default: as other port groups of the VLAN, else false")"),
            field("native_peers", &api::NewPortGroup::native_peers));

template <>
inline constexpr auto kObject<control::edits::PortGroupChange> =
    request("PortGroupChange",
            field("mtu", &control::edits::PortGroupChange::mtu, OptionalRule<NumberRule>{kNetworkMtu}),
            field("native_endpoints", &control::edits::PortGroupChange::native_endpoints),
            field("native_peers", &control::edits::PortGroupChange::native_peers));

// `mac` is a text, which the model checks; the model may also choose a MAC itself.
template <>
inline constexpr auto kObject<control::edits::NewAdapter> =
    request("NewAdapter", field("mac", &control::edits::NewAdapter::mac),
            field("dvs", &control::edits::NewAdapter::dvs),
            field("portgroup", &control::edits::NewAdapter::portgroup).required(),
            field("protocol", &control::edits::NewAdapter::protocol),
            field("profile", &control::edits::NewAdapter::profile),
            field("doorbells", &control::edits::NewAdapter::doorbells),
            field("addresses", &control::edits::NewAdapter::addresses),
            field("owner", &control::edits::NewAdapter::owner, control::kAccount),
            field("group", &control::edits::NewAdapter::group, control::kAccount));

template <>
inline constexpr auto kObject<api::NewVmBody> =
    request("NewVm", field("name", &api::NewVmBody::name, api::kModelsName).required(),
            field("host", &api::NewVmBody::host).noted(R"("default": "self")"),
            field("hardware_version", &api::NewVmBody::hardware_version, api::kVmHardwareVersion).required(),
            field("memory_mib", &api::NewVmBody::memory_mib, api::kMemoryMib).required(),
            field("memory_reserved_mib", &api::NewVmBody::memory_reserved_mib).noted(R"("default": 0)"),
            field("adapter", &api::NewVmBody::adapter));

template <>
inline constexpr auto kObject<control::edits::VmChange> = request(
    "VmChange", field("host", &control::edits::VmChange::host),
    field("memory_mib", &control::edits::VmChange::memory_mib, OptionalRule<NumberRule>{api::kMemoryMib}),
    field("memory_reserved_mib", &control::edits::VmChange::memory_reserved_mib),
    field("protocol", &control::edits::VmChange::protocol),
    field("doorbells", &control::edits::VmChange::doorbells),
    field("portgroup", &control::edits::VmChange::portgroup), field("dvs", &control::edits::VmChange::dvs),
    field("addresses", &control::edits::VmChange::addresses),
    field("owner", &control::edits::VmChange::owner, OptionalRule<TextRule>{control::kAccount}),
    field("group", &control::edits::VmChange::group, OptionalRule<TextRule>{control::kAccount}));

template <>
inline constexpr auto kObject<api::Upgrade> =
    request("Upgrade",
            field("hardware_version", &api::Upgrade::hardware_version, api::kVmHardwareVersion).required());

}  // namespace pvrdma::schema
