// RoceRules: the rules of a host's bridge for its VMs' RoCE frames, as commands for a root shell. The VMs'
// NICs have the same MAC and IP addresses as their adapters. So the rules send RoCE frames to pvrdmad by a
// port of its own instead of to the NICs. They also prevent that frames from pvrdmad with these MACs teach
// the bridge that the VMs have moved to that port. The commands that add rules can be repeated: they add what
// is missing.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pvrdma::ctl {

// Every text is safe for a shell and for nft: is_name(), a MAC.
struct RoceRules {
  struct Guest {
    std::string mac;
    std::string tap;  // of its vmxnet3 adapter
  };

  std::string bridge;
  std::string port;  // a tap device that pvrdmad opens
  std::string user;  // owner of the port
  std::uint32_t mtu_bytes = 0;
  std::uint32_t vlan = 0;    // 0: no VLAN
  bool tells_vlans = false;  // the bridge filters by VLAN (vlan_filtering)
  std::vector<Guest> guests;
};

using Lines = std::vector<std::string>;

// For a Linux bridge; needs nftables and Linux 5.16.
Lines bridge_rules(const RoceRules& rules);
Lines bridge_rules_undone(const RoceRules& rules);

// For an Open vSwitch bridge, version 2.16 or later.
Lines open_vswitch_rules(const RoceRules& rules);
Lines open_vswitch_rules_undone(const RoceRules& rules);

}  // namespace pvrdma::ctl
