// The checks of `pvrdmactl doctor`: what keeps a VM of this host from RDMA, and the command that mends it.
// Each check judges answers of the daemon's API, or what this machine says (doctor_probes.h); it asks nothing
// itself.
//
// Functions with a Json throw Json::exception if a field is missing or of another type. Thread: values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/words.h"
#include "pvrdmactl/doctor_probes.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

enum class Verdict : std::uint8_t {
  kOk,
  kTrouble,
  kSkipped,  // this check does not apply, or cannot be made
};

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string subject;  // "adapter VM-01"
  std::string says;
  std::string mend;  // a command, or where to look; empty: `says` tells it, or the verdict is not kTrouble
};
using Findings = std::vector<Finding>;

Finding check_qemu(const QemuProbe& qemu);

// Certificates are valid by the clock of the host that looks at them. `process`: answer of GET /v1/process.
Finding check_clock(const ClockProbe& clock, const Json& process);

// Answers of GET /v1/process and /v1/adapters, and of /v1/cluster, which is null outside a cluster.
Findings check_certificates(const Json& process);
Finding check_open_files(const Json& process);
// `shards`: answer of GET /v1/shards.
Finding check_shards(const Json& shards);
Finding check_locked_memory(const Json& process, const Json& adapters, const Json& cluster);
Finding check_hca(const Json& cluster);
Finding check_adapter(const Json& adapter, bool in_cluster);
Finding check_doorbells(const Json& adapters);
// A VM of a cluster is expected to have a monitor, for vMotion.
Finding check_monitor(const Json& adapter, const MonitorProbe& monitor, bool in_cluster);
// Checks that the vmxnet3 in the adapter's PCI slot has the adapter's MAC. The driver takes its MAC from the
// adapter.
Finding check_nic(const Json& adapter, const MonitorProbe& monitor, bool in_cluster);

// For a member of a cluster, by the answers of GET /v1/cluster, /v1/hosts/self and /v1/vms.
Finding check_store(const Json& cluster);
Finding check_vmknic(const Json& host, const Json& cluster);
Finding check_ruleset(const Json& host, const Json& cluster);
Findings check_peers(const Json& cluster);
// The daemon itself refuses a second adapter with a MAC, but a file of [[adapter]]s and the cluster's VMs do
// not know each other.
Findings check_macs(const Json& adapters, const Json& vms);
// VMs that this host cannot serve, or that a rule keeps off. `host` is this host's name.
Findings check_vms(const Json& vms);

// {"healthy", "checks": [{"verdict", "subject", "says", "mend"}]}.
Json to_json(const Findings& findings);
std::string doctor_text(const Json& answer);
bool is_healthy(const Json& answer);

}  // namespace pvrdma::ctl

namespace pvrdma {

template <>
inline constexpr std::array kWords<ctl::Verdict>{Word{"ok", ctl::Verdict::kOk},
                                                 Word{"TROUBLE", ctl::Verdict::kTrouble},
                                                 Word{"skipped", ctl::Verdict::kSkipped}};

}  // namespace pvrdma
