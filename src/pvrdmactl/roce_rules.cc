#include "pvrdmactl/roce_rules.h"

#include <array>
#include <fmt/core.h>
#include <string_view>

namespace pvrdma::ctl {
namespace {

// Frames for pvrdmad: RoCE v2 over IPv4 and IPv6, and v1.
constexpr std::uint16_t kRoceUdpPort = 4791;
constexpr std::uint16_t kRoceEthertype = 0x8915;

// Holds a burst from a fast peer, which overflows the default of 1000.
constexpr std::uint32_t kQueueFrames = 8192;

void add_port(const RoceRules& rules, Lines& lines) {
  lines.push_back(
      fmt::format("ip link show dev {0} > /dev/null 2>&1 || ip tuntap add dev {0} mode tap user {1}",
                  rules.port, rules.user));
  lines.push_back(fmt::format("ip link set dev {} mtu {} txqueuelen {} addrgenmode none", rules.port,
                              rules.mtu_bytes, kQueueFrames));
}

std::array<std::string, 3> flows_to(const std::string& mac) {
  return {fmt::format("udp,tp_dst={},dl_dst={}", kRoceUdpPort, mac),
          fmt::format("udp6,tp_dst={},dl_dst={}", kRoceUdpPort, mac),
          fmt::format("dl_type={:#06x},dl_dst={}", kRoceEthertype, mac)};
}

std::string table_of(const std::string& tap) {
  return "pvrdma_" + tap;
}

// Each tap has its own table, so that a missing tap does not affect the others.
void add_table(const std::string& tap, const std::string& port, Lines& lines) {
  const std::string table = table_of(tap);
  const Lines text{
      "nft -f - <<'END'",
      fmt::format("table netdev {}", table),
      fmt::format("delete table netdev {}", table),
      fmt::format("table netdev {} {{", table),
      "  chain to_guest {",
      fmt::format("    type filter hook egress device \"{}\" priority filter; policy accept;", tap),
      fmt::format("    ether type {:#06x} fwd to \"{}\"", kRoceEthertype, port),
      fmt::format("    udp dport {} fwd to \"{}\"", kRoceUdpPort, port),
      "  }",
      "}",
      "END"};
  lines.insert(lines.end(), text.begin(), text.end());
}

}  // namespace

Lines bridge_rules(const RoceRules& rules) {
  Lines lines;
  add_port(rules, lines);
  lines.push_back(fmt::format("ip link set dev {} master {}", rules.port, rules.bridge));
  lines.push_back(fmt::format("bridge link set dev {} learning off flood off mcast_flood off bcast_flood off",
                              rules.port));
  if (rules.tells_vlans && rules.vlan != 0) {
    lines.push_back(fmt::format("bridge vlan add dev {} vid {} pvid untagged", rules.port, rules.vlan));
  }
  lines.push_back(fmt::format("ip link set dev {} up", rules.port));
  for (const RoceRules::Guest& guest : rules.guests) add_table(guest.tap, rules.port, lines);
  return lines;
}

Lines bridge_rules_undone(const RoceRules& rules) {
  Lines lines;
  for (const RoceRules::Guest& guest : rules.guests) {
    lines.push_back(fmt::format("nft delete table netdev {}", table_of(guest.tap)));
  }
  lines.push_back(fmt::format("ip tuntap del dev {} mode tap", rules.port));
  return lines;
}

Lines open_vswitch_rules(const RoceRules& rules) {
  Lines lines;
  add_port(rules, lines);
  lines.push_back(fmt::format("ip link set dev {} up", rules.port));
  const std::string tag = rules.vlan == 0 ? "" : fmt::format(" tag={}", rules.vlan);
  lines.push_back(fmt::format("ovs-vsctl --may-exist add-port {} {}{}", rules.bridge, rules.port, tag));
  lines.push_back(fmt::format("ovs-ofctl mod-port {} {} no-flood", rules.bridge, rules.port));
  for (const RoceRules::Guest& guest : rules.guests) {
    lines.push_back(
        fmt::format("ovs-appctl fdb/add {} {} {} {}", rules.bridge, guest.tap, rules.vlan, guest.mac));
    for (const std::string& flow : flows_to(guest.mac)) {
      lines.push_back(fmt::format("ovs-ofctl add-flow {} \"priority=50000,{},actions=strip_vlan,output:{}\"",
                                  rules.bridge, flow, rules.port));
    }
  }
  return lines;
}

Lines open_vswitch_rules_undone(const RoceRules& rules) {
  Lines lines;
  for (const RoceRules::Guest& guest : rules.guests) {
    for (const std::string& flow : flows_to(guest.mac)) {
      lines.push_back(fmt::format("ovs-ofctl del-flows {} \"{}\"", rules.bridge, flow));
    }
    lines.push_back(fmt::format("ovs-appctl fdb/del {} {} {}", rules.bridge, rules.vlan, guest.mac));
  }
  lines.push_back(fmt::format("ovs-vsctl del-port {} {}", rules.bridge, rules.port));
  lines.push_back(fmt::format("ip tuntap del dev {} mode tap", rules.port));
  return lines;
}

}  // namespace pvrdma::ctl
