// The bodies of the API's requests: what each may have and must have. They are read strictly, and the
// description in /openapi.json is made of the same. What else is allowed of a value, and of values together,
// are the model's rules (model/edits.h).
//
// Thread: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/hardware_version.h"
#include "control/adapter_control.h"
#include "control/api/router.h"
#include "control/model/edits.h"
#include "control/model/objects.h"

namespace pvrdma::control {

// Error (EINVAL): the body's first mistake. An empty body is an empty object.
Result<ParsedJson> parse_body(const Call& call);
template <Described Body>
Result<Body> body_of(const Call& call) {
  const auto json = parse_body(call);
  if (!json) return Failure(json.error());
  Body body;
  Reader reader;
  read(reader, *json, body);
  if (reader.failed()) return fail(EINVAL, sentence(*reader.mistake(), "the body"));
  return body;
}

// A name that the model judges.
inline constexpr TextRule kModelsName{"a string", nullptr, kName.schema_name, kName.pattern};
inline constexpr NumberRule kVmHardwareVersion{kVmHardwareVersionMin, kVmHardwareVersionMax};
inline constexpr NumberRule kMemoryMib{1, UINT32_MAX};
inline constexpr NumberRule kSnaplen{1, 262144};
inline constexpr NumberRule kLateMs{1, 1000};

struct Nothing {};
template <>
inline constexpr auto kObject<Nothing> = request("Nothing");

struct LinkBody {
  bool up = false;
};
template <>
inline constexpr auto kObject<LinkBody> = request("Link", field("up", &LinkBody::up).required());

struct HcaCheckBody {
  std::string device;
  std::uint32_t memory_mib = 256;
};
template <>
inline constexpr auto kObject<HcaCheckBody> =
    request("HcaCheckRequest",
            field("device", &HcaCheckBody::device)
                .noted(R"("description": "As libibverbs calls it; default: the only one")"),
            field("memory_mib", &HcaCheckBody::memory_mib, NumberRule{1, 65536}));

struct CaptureBody {
  std::string filter;
  std::uint32_t snaplen = 262144;
  std::uint32_t count = 0;
  std::uint32_t duration = 0;
};
template <>
inline constexpr auto kObject<CaptureBody> =
    request("Capture",
            field("filter", &CaptureBody::filter)
                .noted(R"("description": "See pvrdmactl(1); default: all messages")"),
            field("snaplen", &CaptureBody::snaplen, kSnaplen)
                .noted(R"("default": 262144, "description": "Bytes kept of each frame")"),
            field("count", &CaptureBody::count)
                .noted(R"("default": 0, "description": "Ends after so many frames; 0: never")"),
            field("duration", &CaptureBody::duration)
                .noted(R"("default": 0, "description": "Ends after so many seconds; 0: never")"));

struct FaultBody : FaultWish {};
template <>
inline constexpr auto kObject<FaultBody> = request(
    "NewFault", field("adapter", &FaultBody::adapter, kModelsName).required(R"("VM-01")"),
    field("drop", &FaultBody::drop_ppm, ProbabilityRule{}),
    field("duplicate", &FaultBody::duplicate_ppm, ProbabilityRule{}),
    field("delay", &FaultBody::delay_ppm, ProbabilityRule{}),
    field("reorder", &FaultBody::reorder_ppm, ProbabilityRule{}),
    field("corrupt", &FaultBody::corrupt_ppm, ProbabilityRule{}),
    field("late_ms", &FaultBody::late_ms, kLateMs)
        .noted(
            R"("default": 1, "description": "How late at most what is delayed, reordered or doubled comes")"),
    field("seed", &FaultBody::seed).noted(R"("description": "Default: one is drawn")"));

struct UpgradeVmmBody {
  std::string monitor;
  std::string new_monitor;
};
template <>
inline constexpr auto kObject<UpgradeVmmBody> = request(
    "UpgradeVmm",
    field("monitor", &UpgradeVmmBody::monitor)
        .noted(R"("description": "QMP socket of the QEMU that runs the VM; default: as qemu-args has it")"),
    field("new_monitor", &UpgradeVmmBody::new_monitor)
        .noted(R"("description": "Of the QEMU that is to run it; default: as incoming-qemu-args has it")"));

struct CheckpointBody {
  std::string file;
  std::string monitor;
};
template <>
inline constexpr auto kObject<CheckpointBody> = request(
    "NewCheckpoint", field("file", &CheckpointBody::file).required(R"("/var/lib/vms/VM-01.checkpoint")"),
    field("monitor", &CheckpointBody::monitor)
        .noted(R"("description": "QMP socket of the VM's QEMU; default: as qemu-args has it")"));

struct MotionBody {
  std::string to;
  std::string monitor;
  std::uint32_t max_pause_ms = 0;
  std::uint32_t patience_s = 0;
  std::string leader;
};
template <>
inline constexpr auto kObject<MotionBody> = request(
    "NewMotion", field("to", &MotionBody::to).required(R"("esx-02")"),
    field("leader", &MotionBody::leader)
        .noted(R"("enum": ["pvrdmad", "libvirt"], "description": "Who has QEMU migrate; default: pvrdmad. )"
               R"(libvirt is to begin in the phase \"waits for QEMU\", and to leave the VM paused there")"),
    field("max_pause_ms", &MotionBody::max_pause_ms)
        .noted(R"("description": "The VM stands no longer than that, or stays; default: 500")"),
    field("patience_s", &MotionBody::patience_s)
        .noted(R"("description": "For a QEMU on the other host, and for the guest's memory; default: 600")"),
    field("monitor", &MotionBody::monitor)
        .noted(R"("description": "QMP socket of the VM's QEMU; default: as qemu-args has it")"));

struct NewVmk {
  std::string name;
  std::string address;
};
template <>
inline constexpr auto kObject<NewVmk> = request("NewVmk", field("name", &NewVmk::name).required(R"("vmk2")"),
                                                field("address", &NewVmk::address).required(R"("10.0.0.1")"));

struct AdvancedValue {
  std::string path;
  std::string value;
};
template <>
inline constexpr auto kObject<AdvancedValue> =
    request("AdvancedValue", field("path", &AdvancedValue::path).required(R"("/Net/PVRDMAVmknic")"),
            field("value", &AdvancedValue::value).required());

struct RulesetChange {
  std::optional<bool> enabled;
  std::optional<bool> allow_all;
};
template <>
inline constexpr auto kObject<RulesetChange> = request("RulesetChange",
                                                       field("enabled", &RulesetChange::enabled),
                                                       field("allow_all", &RulesetChange::allow_all));

struct Network {
  std::string network;
};
template <>
inline constexpr auto kObject<Network> =
    request("Network", field("network", &Network::network).required(R"("10.0.0.0/24")"));

template <>
inline constexpr auto kObject<edits::NewDvs> = request(
    "NewDvs", field("name", &edits::NewDvs::name, kModelsName).required(),
    field("version", &edits::NewDvs::version).noted(R"("default": "8.0.0")"),
    field("uplinks", &edits::NewDvs::uplinks, NumberRule{1, edits::kUplinksMax}).noted(R"("default": 2)"));

struct Uplink {
  std::string vmnic;
};
template <>
inline constexpr auto kObject<Uplink> = request("Uplink",
                                                field("vmnic", &Uplink::vmnic).required(R"("vmnic0")"));

struct NewPortGroup : PortGroup {};
template <>
inline constexpr auto kObject<NewPortGroup> =
    request("NewPortGroup", field("vlan", &NewPortGroup::vlan, kVlan).noted(R"("default": 0)"),
            field("mtu", &NewPortGroup::mtu, kNetworkMtu).noted(R"("default": 1500)"),
            field("native_endpoints", &NewPortGroup::native_endpoints)
                .noted(R"("description": "Default: as other port groups of the VLAN, else false")"),
            field("native_peers", &NewPortGroup::native_peers));

template <>
inline constexpr auto kObject<edits::PortGroupChange> = request(
    "PortGroupChange", field("mtu", &edits::PortGroupChange::mtu, OptionalRule<NumberRule>{kNetworkMtu}),
    field("native_endpoints", &edits::PortGroupChange::native_endpoints),
    field("native_peers", &edits::PortGroupChange::native_peers));

// `mac` is a text: the model, which may choose one itself, judges it.
template <>
inline constexpr auto kObject<edits::NewAdapter> = request(
    "NewAdapter", field("mac", &edits::NewAdapter::mac), field("dvs", &edits::NewAdapter::dvs),
    field("portgroup", &edits::NewAdapter::portgroup).required(),
    field("protocol", &edits::NewAdapter::protocol), field("profile", &edits::NewAdapter::profile),
    field("doorbells", &edits::NewAdapter::doorbells), field("addresses", &edits::NewAdapter::addresses),
    field("owner", &edits::NewAdapter::owner, kAccount), field("group", &edits::NewAdapter::group, kAccount));

// The VM and its adapter, or neither.
struct NewVmBody : edits::NewVm {
  NewVmBody() { host = "self"; }
  std::optional<edits::NewAdapter> adapter;
};
template <>
inline constexpr auto kObject<NewVmBody> =
    request("NewVm", field("name", &NewVmBody::name, kModelsName).required(),
            field("host", &NewVmBody::host).noted(R"("default": "self")"),
            field("hardware_version", &NewVmBody::hardware_version, kVmHardwareVersion).required(),
            field("memory_mib", &NewVmBody::memory_mib, kMemoryMib).required(),
            field("memory_reserved_mib", &NewVmBody::memory_reserved_mib).noted(R"("default": 0)"),
            field("adapter", &NewVmBody::adapter));

template <>
inline constexpr auto kObject<edits::VmChange> =
    request("VmChange", field("host", &edits::VmChange::host),
            field("memory_mib", &edits::VmChange::memory_mib, OptionalRule<NumberRule>{kMemoryMib}),
            field("memory_reserved_mib", &edits::VmChange::memory_reserved_mib),
            field("protocol", &edits::VmChange::protocol), field("doorbells", &edits::VmChange::doorbells),
            field("portgroup", &edits::VmChange::portgroup), field("dvs", &edits::VmChange::dvs),
            field("addresses", &edits::VmChange::addresses),
            field("owner", &edits::VmChange::owner, OptionalRule<TextRule>{kAccount}),
            field("group", &edits::VmChange::group, OptionalRule<TextRule>{kAccount}));

struct Upgrade {
  std::uint32_t hardware_version = 0;
};
template <>
inline constexpr auto kObject<Upgrade> =
    request("Upgrade", field("hardware_version", &Upgrade::hardware_version, kVmHardwareVersion).required());

}  // namespace pvrdma::control
