#include "pvrdmactl/doctor_checks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <set>
#include <system_error>

#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/qemu_devices.h"

namespace pvrdma::ctl {
namespace {

constexpr std::array kQemuNeeded{10, 1};
constexpr std::uint64_t kDayS = 86400;
constexpr std::uint64_t kWarnBeforeDays = 14;
constexpr std::uint64_t kOpenFilesNeeded = 4096;          // about 60 for each VM with memory in several parts
constexpr std::uint64_t kLockedBytesOfPipes = 4'718'592;  // slots of a pipe in each direction, pvrdmad(8)

Finding ok(std::string subject, std::string says) {
  return {Verdict::kOk, std::move(subject), std::move(says), {}};
}
Finding trouble(std::string subject, std::string says, std::string mend) {
  return {Verdict::kTrouble, std::move(subject), std::move(says), std::move(mend)};
}
Finding skipped(std::string subject, std::string why) {
  return {Verdict::kSkipped, std::move(subject), std::move(why), {}};
}

// A host without peers needs nothing for traffic between hosts.
bool is_alone(const Json& cluster) {
  return cluster.at("hosts").size() <= 1;
}

std::string right_arguments(const std::string& name, bool in_cluster) {
  return in_cluster ? fmt::format("start the VM as pvrdmactl vm qemu-args {} says", name)
                    : "start the VM with the arguments in QEMU of pvrdmad(8)";
}

bool has_hca(const Json& cluster) {
  return cluster.is_object() && !text_at(cluster.at("hca"), "device").empty();
}

std::string name_of_use(const Json& certificate) {
  return fmt::format("certificate [{}]", text_at(certificate, "use"));
}

Finding check_certificate(const Json& certificate, std::uint64_t now_s) {
  const std::string file = text_at(certificate, "file");
  const std::uint64_t end_s = number_at(certificate, "not_after_s");
  const std::string mend = fmt::format("replace {}, then systemctl reload pvrdmad", file);
  if (end_s <= now_s) return trouble(name_of_use(certificate), fmt::format("{} has expired", file), mend);
  const std::uint64_t days = (end_s - now_s) / kDayS;
  const std::string says = fmt::format("{} ends in {} days", file, days);
  return days < kWarnBeforeDays ? trouble(name_of_use(certificate), says, mend)
                                : ok(name_of_use(certificate), says);
}

}  // namespace

Finding check_qemu(const QemuProbe& qemu) {
  const std::string mend = "install QEMU 10.1 or later, or name one with --qemu";
  if (qemu.version_text.empty())
    return trouble("QEMU", fmt::format("{} cannot be run: {}", qemu.program, qemu.trouble), mend);
  std::array<int, 2> version{};
  if (std::sscanf(qemu.version_text.c_str(), "QEMU emulator version %d.%d", &version[0], &version[1]) != 2)
    return trouble("QEMU", fmt::format("{} --version says nothing of QEMU", qemu.program), mend);
  const std::string name = fmt::format("{} {}.{}", qemu.program, version[0], version[1]);
  if (version < kQemuNeeded) return trouble("QEMU", name + " is older than 10.1", mend);
  if (!qemu.has_device) return trouble("QEMU", name + " has no device vfio-user-pci", mend);
  return ok("QEMU", name + " has vfio-user-pci");
}

Finding check_clock(const ClockProbe& clock, const Json& process) {
  if (clock.is_synchronised) return ok("clock", fmt::format("synchronised, to {} ms", clock.error_ms));
  if (process.at("certificates").empty())
    return skipped("clock", "not synchronised, but the daemon uses no certificates");
  return trouble("clock", "not synchronised, so certificates may be refused as expired or not yet valid",
                 "install chrony or systemd-timesyncd, and see timedatectl");
}

Findings check_certificates(const Json& process) {
  Findings findings;
  for (const Json& certificate : process.at("certificates"))
    findings.push_back(check_certificate(certificate, number_at(process, "now_s")));
  if (findings.empty()) findings.push_back(skipped("certificates", "the daemon uses no certificates"));
  return findings;
}

Finding check_open_files(const Json& process) {
  const Json& limit = process.at("open_files_max");
  if (limit.is_null()) return ok("open files", "the daemon has no limit");
  const auto files = limit.get<std::uint64_t>();
  const std::string says = fmt::format("the daemon may have {}", files);
  return files >= kOpenFilesNeeded
             ? ok("open files", says)
             : trouble("open files", says + fmt::format(", fewer than {}", kOpenFilesNeeded),
                       "set LimitNOFILE=65536 with systemctl edit pvrdmad, then systemctl restart pvrdmad");
}

Finding check_shards(const Json& shards) {
  std::size_t count = 0;
  std::string in_ward;
  for (const Json& shard : shards.at("shards")) {
    if (shard.value("is_ward", false))
      in_ward = joined(shard.at("adapters"));
    else
      ++count;
  }
  if (!in_ward.empty())
    return trouble("shards", "adapters that delayed others are in the ward: " + in_ward,
                   "look at their VMs; pvrdmactl adapter shard set NAME --shard 0 takes one out");
  return ok("shards", count > 1 ? fmt::format("{} threads serve the adapters", count)
                                : "one thread serves all adapters: " + text_at(shards, "why_one"));
}

Finding check_locked_memory(const Json& process, const Json& adapters, const Json& cluster) {
  if (!has_hca(cluster)) return skipped("locked memory", "only the path hca locks memory");
  const Json& limit = process.at("locked_bytes_max");
  if (limit.is_null()) return ok("locked memory", "the daemon has no limit");
  std::uint64_t needed = 0;
  for (const Json& peer : cluster.at("hca").at("peers"))
    needed += std::max<std::uint64_t>(1, peer.value("pipes", 1U)) * kLockedBytesOfPipes;
  for (const Json& adapter : adapters) needed += number_at(adapter, "memory_bytes");
  const auto bytes = limit.get<std::uint64_t>();
  const std::string says =
      fmt::format("the daemon may lock {} MiB and needs {} MiB", bytes >> 20, needed >> 20);
  return bytes >= needed
             ? ok("locked memory", says)
             : trouble(
                   "locked memory", says,
                   "set LimitMEMLOCK=infinity with systemctl edit pvrdmad, then systemctl restart pvrdmad");
}

Finding check_hca(const Json& cluster) {
  const Json& hca = cluster.at("hca");
  const std::string device = text_at(hca, "device");
  const std::string why = text_at(hca, "trouble");
  if (device.empty()) return skipped("HCA", why.empty() ? "not used: TCP carries the traffic" : why);
  return why.empty() ? ok("HCA", device + " is used")
                     : trouble("HCA", fmt::format("{}: {}", device, why), "pvrdmactl hca check");
}

Finding check_adapter(const Json& adapter, bool in_cluster) {
  const std::string name = text_at(adapter, "name");
  const std::string subject = "adapter " + name;
  const std::string state = text_at(adapter, "state");
  // The trouble of an adapter that works says itself what to do.
  if (const std::string why = text_at(adapter, "trouble"); !why.empty())
    return trouble(subject, why, state == "active" ? "" : right_arguments(name, in_cluster));
  if (state == "failed") return trouble(subject, "the VMM took the guest's memory away", "restart the VM");
  if (!bool_at(adapter, "link_up"))
    return trouble(subject, "its link is down", fmt::format("pvrdmactl adapter set {} --link up", name));
  return ok(subject, state);
}

Finding check_doorbells(const Json& adapters) {
  std::map<std::string, int> modes;
  for (const Json& adapter : adapters) ++modes[text_at(adapter, "doorbells")];
  std::string says;
  for (const auto& [mode, count] : modes)
    says += fmt::format("{}{} {}", says.empty() ? "" : ", ", count, mode);
  return says.empty() ? skipped("doorbells", "this host has no adapters") : ok("doorbells", says);
}

Finding check_monitor(const Json& adapter, const MonitorProbe& monitor, bool in_cluster) {
  const std::string name = text_at(adapter, "name");
  const std::string subject = "monitor " + name;
  if (text_at(adapter, "state") == "off") return skipped(subject, "the VM is off");
  if (monitor.error == 0) return ok(subject, monitor.path);
  if (monitor.error == EACCES)
    return skipped(subject, "this user may not look: run pvrdmactl doctor as root");
  const std::string says =
      fmt::format("QEMU's monitor {} cannot be reached ({}), so the VM cannot move and has no checkpoints",
                  monitor.path, std::generic_category().message(monitor.error));
  if (!in_cluster && monitor.error == ENOENT) return skipped(subject, says);
  return trouble(subject, says, fmt::format("start QEMU with -qmp unix:{},server=on,wait=off", monitor.path));
}

Finding check_nic(const Json& adapter, const MonitorProbe& monitor, bool in_cluster) {
  const std::string name = text_at(adapter, "name");
  const std::string subject = "NIC " + name;
  const std::string socket = text_at(adapter, "socket");
  const std::string mac = text_at(adapter, "mac");
  if (text_at(adapter, "state") == "off") return skipped(subject, "the VM is off");
  if (monitor.arguments.empty()) {
    return skipped(subject, monitor.error == 0
                                ? "the command line of its QEMU cannot be read"
                                : "its QEMU cannot be found, because its monitor cannot be reached");
  }
  const auto devices = devices_of(monitor.arguments);
  const auto own = std::ranges::find(devices, socket, &QemuDevice::socket);
  if (own == devices.end()) return skipped(subject, "its QEMU's command line does not name " + socket);
  const auto nic = std::ranges::find_if(devices, [&own](const QemuDevice& each) {
    return each.driver == "vmxnet3" && each.bus == own->bus && each.slot == own->slot && each.function == 0;
  });
  const std::string place = fmt::format("PCI slot {:#x}", own->slot);
  const std::string mend = right_arguments(name, in_cluster);
  if (nic == devices.end())
    return trouble(subject, fmt::format("no vmxnet3 is at function 0 of the adapter's {}", place), mend);
  if (nic->mac == mac) return ok(subject, fmt::format("the vmxnet3 in {} has the adapter's MAC", place));
  return trouble(subject,
                 fmt::format("the vmxnet3 in {} has {}, and the adapter {}", place,
                             nic->mac.empty() ? "no MAC of its own" : "the MAC " + nic->mac, mac),
                 mend);
}

Finding check_store(const Json& cluster) {
  const Json& store = cluster.at("store");
  const std::string what = text_at(store, "description");
  return bool_at(store, "connected")
             ? ok("store", what)
             : trouble("store", fmt::format("{} cannot be reached: {}", what, text_at(store, "trouble")),
                       "start the store, and see [store] in pvrdmad.toml(5)");
}

Finding check_vmknic(const Json& host, const Json& cluster) {
  for (const Json& vmk : host.at("vmks")) {
    if (bool_at(vmk, "tagged")) return ok("vmknic", text_at(vmk, "name") + " " + text_at(vmk, "address"));
  }
  if (is_alone(cluster)) return skipped("vmknic", "the cluster has no other host");
  const std::string set = "pvrdmactl system settings advanced set -o /Net/PVRDMAVmknic -s ";
  if (!host.at("vmks").empty()) {
    return trouble("vmknic", "no VMkernel adapter is tagged for PVRDMA, so no host can be reached",
                   set + text_at(host.at("vmks").front(), "name"));
  }
  return trouble(
      "vmknic", "this host has no VMkernel adapter, so no host can be reached",
      "pvrdmactl network ip interface add --interface-name vmk0 --address ADDRESS, then " + set + "vmk0");
}

Finding check_ruleset(const Json& host, const Json& cluster) {
  const Json& ruleset = host.at("ruleset");
  const std::string name = text_at(ruleset, "name");
  if (!bool_at(host, "firewall")) return ok("ruleset " + name, "without effect: the firewall is disabled");
  if (bool_at(ruleset, "enabled")) return ok("ruleset " + name, "enabled");
  if (is_alone(cluster)) return skipped("ruleset " + name, "disabled, but the cluster has no other host");
  return trouble("ruleset " + name, "disabled, so no host can be reached",
                 fmt::format("pvrdmactl network firewall ruleset set -r {} -e true", name));
}

Findings check_peers(const Json& cluster) {
  const Json& tcp = cluster.at("tcp");
  Findings findings;
  if (const std::string why = text_at(tcp, "trouble"); !why.empty())
    findings.push_back(trouble("TCP port 28250", why, "give the tagged vmknic's address to this host"));
  const auto cannot_reach = [&](const std::string& host, std::string why) {
    findings.push_back(
        trouble("peer " + host, std::move(why), fmt::format("run pvrdmactl doctor on {}", host)));
  };
  std::set<std::string> peers;
  for (const Json& peer : tcp.at("peers")) {
    const std::string host = text_at(peer, "host");
    const std::string why = text_at(peer, "trouble");
    peers.insert(host);
    if (number_at(peer, "lanes_up") != 0 && why.empty()) {
      findings.push_back(ok("peer " + host, fmt::format("{} connection(s)", number_at(peer, "lanes_up"))));
    } else {
      cannot_reach(host, why.empty() ? "no connection" : why);
    }
  }
  // A host that is not alive or has no tagged vmknic is no peer.
  for (const Json& host : cluster.at("hosts")) {
    const std::string name = text_at(host, "name");
    const std::string why = text_at(host, "trouble");
    if (!bool_at(host, "self") && !why.empty() && !peers.contains(name)) cannot_reach(name, why);
  }
  if (findings.empty()) {
    findings.push_back(skipped(
        "peers", is_alone(cluster) ? "the cluster has no other host" : "this host connects to none yet"));
  }
  return findings;
}

Findings check_macs(const Json& adapters, const Json& vms) {
  std::map<std::string, std::set<std::string>> names;  // by MAC; a VM that is served here is in both lists
  for (const Json& adapter : adapters) names[text_at(adapter, "mac")].insert(text_at(adapter, "name"));
  for (const Json& vm : vms) {
    if (vm.at("adapter").is_object()) names[text_at(vm.at("adapter"), "mac")].insert(text_at(vm, "name"));
  }
  Findings findings;
  for (const auto& [mac, owners] : names) {
    if (owners.size() == 1) continue;
    findings.push_back(trouble("MAC " + mac, fmt::format("adapters {} have it", fmt::join(owners, " and ")),
                               "give one of the VMs another MAC, in its vmxnet3 adapter, too"));
  }
  if (findings.empty()) findings.push_back(ok("MACs", fmt::format("{} different", names.size())));
  return findings;
}

Findings check_vms(const Json& vms) {
  Findings findings;
  for (const Json& vm : vms) {
    const std::string name = text_at(vm, "name");
    if (const std::string why = text_at(vm, "not_served"); !why.empty()) {
      findings.push_back(trouble("VM " + name, "this host cannot serve its adapter: " + why, ""));
    } else if (const std::string rule = text_at(vm, "power_on_refusal"); !rule.empty()) {
      findings.push_back(trouble("VM " + name, "it may not be powered on: " + rule, ""));
    }
  }
  return findings;
}

Json to_json(const Findings& findings) {
  Json checks = Json::array();
  for (const Finding& each : findings) {
    checks.push_back({{"verdict", to_text(each.verdict)},
                      {"subject", each.subject},
                      {"says", each.says},
                      {"mend", each.mend}});
  }
  const bool healthy = std::ranges::find(findings, Verdict::kTrouble, &Finding::verdict) == findings.end();
  return {{"healthy", healthy}, {"checks", std::move(checks)}};
}

std::string doctor_text(const Json& answer) {
  std::string text;
  for (const Json& check : answer.at("checks")) {
    const std::string mend = text_at(check, "mend");
    text += fmt::format("{:<8} {}: {}{}\n", text_at(check, "verdict"), text_at(check, "subject"),
                        text_at(check, "says"), mend.empty() ? "" : "; to mend it: " + mend);
  }
  return text;
}

bool is_healthy(const Json& answer) {
  return bool_at(answer, "healthy");
}

}  // namespace pvrdma::ctl
