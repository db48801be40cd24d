// "rdma ...": RDMA devices of a host, in esxcli's words and columns.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

constexpr const char* kNetStack = "defaultTcpipStack";  // a Linux host has only one

Result<Json> rdma_devices(Json host, const Values& /*values*/) {
  return host.at("rdma_devices");
}

// In esxcli's form: "100 Gbps", "2.5 Gbps", "100 Mbps", and "0" if the device is down.
std::string speed(std::uint64_t mbps) {
  if (mbps == 0) return "0";
  return mbps < 1000 ? fmt::format("{} Mbps", mbps)
                     : fmt::format("{:g} Gbps", static_cast<double>(mbps) / 1000);
}

Table device_list(const Json& devices) {
  Table table({{"Name"},
               {"Driver"},
               {"State"},
               {"MTU", Align::kRight},
               {"Speed"},
               {"Paired Uplink"},
               {"Description"}});
  for (const Json& device : devices) {
    const bool active = bool_at(device, "active");
    table.add({text_at(device, "name"), text_at(device, "driver"), active ? "Active" : "Down",
               digits_at(device, "mtu"), active ? speed(number_at(device, "speed_mbps")) : "0",
               or_dash(text_at(device, "paired_uplink")), text_at(device, "description")});
  }
  return table;
}

Table protocol_list(const Json& devices) {
  Table table({{"Device"}, {"RoCE v1", Align::kRight}, {"RoCE v2", Align::kRight}, {"iWARP", Align::kRight}});
  for (const Json& device : devices) {
    table.add({text_at(device, "name"), true_false_at(device, "roce_v1"), true_false_at(device, "roce_v2"),
               true_false_at(device, "iwarp")});
  }
  return table;
}

// As in esxcli, devices without a vmknic have no line.
Table vmknic_list(const Json& devices) {
  Table table({{"Device"}, {"Vmknic"}, {"NetStack"}});
  for (const Json& device : devices) {
    const std::string vmknic = text_at(device, "vmknic");
    if (!vmknic.empty()) table.add({text_at(device, "name"), vmknic, kNetStack});
  }
  return table;
}

Table device_stats(const Json& answer) {
  std::vector<Column> counters;
  std::vector<std::string> values;
  for (const auto& [counter, value] : answer.at("stats").items()) {
    counters.push_back({counter, Align::kRight});
    values.push_back(std::to_string(value.get<std::uint64_t>()));
  }
  Table table(std::move(counters), Layout::kObject);
  table.add(std::move(values));
  return table;
}

}  // namespace

Section rdma_commands() {
  return {
      .namespaces = {{"rdma", "RDMA devices of a host"},
                     {"rdma device", "RDMA devices"},
                     {"rdma device protocol", "protocols that an RDMA device speaks"},
                     {"rdma device stats", "counters of an RDMA device"},
                     {"rdma device vmknic", "VMkernel adapters that use an RDMA device"}},
      .commands =
          {{.words = "rdma device list",
            .help = "list the host's RDMA devices",
            .arguments = {host_option()},
            .path = "/v1/hosts/{host}",
            .select = rdma_devices,
            .table = device_list},
           {.words = "rdma device protocol list",
            .help = "list which protocols each RDMA device speaks",
            .arguments = {host_option()},
            .path = "/v1/hosts/{host}",
            .select = rdma_devices,
            .table = protocol_list},
           {.words = "rdma device vmknic list",
            .help = "list which VMkernel adapter uses which RDMA device",
            .arguments = {host_option()},
            .path = "/v1/hosts/{host}",
            .select = rdma_devices,
            .table = vmknic_list},
           {.words = "rdma device stats get",
            .help = "show the counters of one RDMA device",
            .arguments = {{.letter = 'd', .name = "device", .help = "the device, vmrdma0", .required = true},
                          host_option()},
            .path = "/v1/hosts/{host}/rdma/{device}/stats",
            .table = device_stats}},
  };
}

}  // namespace pvrdma::ctl
