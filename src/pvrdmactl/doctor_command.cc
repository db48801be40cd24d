// "doctor": one line for each thing that a VM of this host needs for RDMA.
#include <nlohmann/json.hpp>

#include "pvrdmactl/doctor_checks.h"
#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"

namespace pvrdma::ctl {
namespace {

void add(Findings& to, Findings more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Result<void> check_cluster(const Ask& ask, const Json& cluster, const Json& adapters, Findings& findings) {
  const auto host = ask("/v1/hosts/self");
  if (!host) return Failure(host.error());
  const auto vms = ask("/v1/vms");
  if (!vms) return Failure(vms.error());
  findings.push_back(check_store(cluster));
  findings.push_back(check_vmknic(*host, cluster));
  findings.push_back(check_ruleset(*host, cluster));
  add(findings, check_peers(cluster));
  findings.push_back(check_hca(cluster));
  add(findings, check_vms(*vms));
  add(findings, check_macs(adapters, *vms));
  return {};
}

Result<void> check_daemon(const Ask& ask, Findings& findings) {
  const auto process = ask("/v1/process");
  if (!process) return Failure(process.error());
  const auto adapters = ask("/v1/adapters");
  if (!adapters) return Failure(adapters.error());
  Json cluster;
  const bool in_cluster = bool_at(*process, "in_cluster");
  if (in_cluster) {
    auto answer = ask("/v1/cluster");
    if (!answer) return Failure(std::move(answer).error());
    cluster = *std::move(answer);
  }
  findings.push_back({Verdict::kOk, "daemon", "pvrdmad " + text_at(*process, "version") + " answers", {}});
  findings.push_back(check_open_files(*process));
  findings.push_back(check_locked_memory(*process, *adapters, cluster));
  add(findings, check_certificates(*process));
  findings.push_back(check_clock(probe_clock(), *process));
  if (!in_cluster) {
    findings.push_back({Verdict::kSkipped, "cluster", "this daemon is not a member of a cluster", {}});
    add(findings, check_macs(*adapters, Json::array()));
  } else if (auto checked = check_cluster(ask, cluster, *adapters, findings); !checked) {
    return checked;
  }
  if (const auto shards = ask("/v1/shards")) {
    findings.push_back(check_shards(*shards));
  } else {
    findings.push_back({Verdict::kSkipped, "shards", shards.error().message, {}});
  }
  findings.push_back(check_doorbells(*adapters));
  for (const Json& adapter : *adapters) {
    findings.push_back(check_adapter(adapter, in_cluster));
    const MonitorProbe monitor = probe_monitor(text_at(adapter, "socket"));
    findings.push_back(check_monitor(adapter, monitor, in_cluster));
    findings.push_back(check_nic(adapter, monitor, in_cluster));
  }
  return {};
}

Result<Json> look(const Values& values, const Ask& ask) {
  Findings findings{check_qemu(probe_qemu(values.at("qemu")))};
  if (const auto checked = check_daemon(ask, findings); !checked) {
    findings.push_back({Verdict::kTrouble, "daemon", checked.error().message,
                        "systemctl start pvrdmad, and see journalctl -u pvrdmad"});
  }
  return to_json(findings);
}

}  // namespace

Section doctor_commands() {
  return {.namespaces = {},
          .commands = {{.words = "doctor",
                        .help = "say what keeps VMs of this host from RDMA, and how to mend it",
                        .arguments = {{.name = "qemu",
                                       .kind = Kind::kFile,
                                       .help = "the QEMU that runs the VMs",
                                       .shows = "program",
                                       .fallback = "qemu-system-x86_64"}},
                        .text = doctor_text,
                        .is_good = is_healthy,
                        .compose = look}}};
}

}  // namespace pvrdma::ctl
