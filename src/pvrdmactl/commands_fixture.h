// What commands ask and show, for tests of pvrdmactl's commands. Thread: values.
#pragma once

#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "pvrdmactl/output.h"
#include "pvrdmactl/parser.h"
#include "pvrdmactl/request.h"

namespace pvrdma::ctl {

inline std::vector<std::string> split(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

// "METHOD PATH BODY" for a command line without quotes.
inline std::string asked(const std::string& line) {
  auto invocation = parse("pvrdmactl", split(line));
  if (!invocation) return invocation.error().message;
  const Get memory = [](const std::string&) -> Result<std::string> { return R"({"memory_mib":2048})"; };
  if (auto completed = complete(*invocation->command, invocation->values, memory); !completed) {
    return completed.error().message;
  }
  const Request request = make_request(*invocation->command, invocation->values);
  return std::string(to_string(request.method)) + " " + request.path +
         (request.body.empty() ? "" : " " + request.body);
}

inline std::string shown(const std::string& line, const std::string& answer, Format format = Format::kText) {
  const auto invocation = parse("pvrdmactl", split(line));
  if (!invocation) return invocation.error().message;
  const auto text = show(*invocation->command, invocation->values, answer, format);
  return text ? *text : text.error().message;
}

inline constexpr const char* kHost = R"({"name":"esx-01","self":true,"alive":true,"version":"0.1.0",
  "vmks":[{"name":"vmk0","address":"192.168.1.5","tagged":false},{"name":"vmk2","address":"10.0.0.1","tagged":true}],
  "pvrdma_vmknic":"vmk2","firewall":true,
  "ruleset":{"name":"pvrdma","enabled":true,"allow_all":false,"allowed":["10.0.0.0/24","10.1.0.7"]},
  "vmnics":[{"name":"vmnic0","netdev":"eth0","pci_address":"0000:02:00.0","driver":"mlx5_core",
    "mac":"52:54:00:00:00:01","description":"ConnectX-5","link_up":true,"mtu":9000,"speed_mbps":100000,
    "full_duplex":true},
   {"name":"vmnic1","netdev":"veth1","pci_address":"","driver":"","mac":"52:54:00:00:00:02","description":"",
    "link_up":false,"mtu":1500,"speed_mbps":0,"full_duplex":false}],
  "rdma_devices":[{"name":"vmrdma0","device":"mlx5_0","driver":"mlx5_ib","active":true,"mtu":4096,
    "speed_mbps":100000,"paired_uplink":"vmnic0","description":"MT27800 Family [ConnectX-5]","roce_v1":true,
    "roce_v2":true,"iwarp":false,"vmknic":"vmk2"},
   {"name":"vmrdma1","device":"siw0","driver":"siw","active":false,"mtu":1024,"speed_mbps":2500,
    "paired_uplink":"","description":"","roce_v1":false,"roce_v2":false,"iwarp":true,"vmknic":""}],
  "socket_folder":"/run/pvrdma"})";

}  // namespace pvrdma::ctl
