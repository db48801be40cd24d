// RoceRules: what a host's bridge needs so that RoCE frames for its VMs go to pvrdmad by a port of their own
// and not to the VMs' NICs, which have the same MAC and IP addresses, and so that frames which pvrdmad sends
// under these MACs do not teach the bridge that the VMs have moved there. As commands for a root shell. Those
// that make it may be run again: they make what is missing.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pvrdma::ctl {

// Every text is such that a shell and nft take it for itself: is_name(), a MAC.
struct RoceRules {
  struct Guest {
    std::string mac;
    std::string tap;  // of its vmxnet3 adapter
  };

  std::string bridge;
  std::string port;  // a tap device that pvrdmad opens
  std::string user;  // whose it is
  std::uint32_t mtu_bytes = 0;
  std::uint32_t vlan = 0;    // 0: none
  bool tells_vlans = false;  // the bridge is one with vlan_filtering
  std::vector<Guest> guests;
};

using Lines = std::vector<std::string>;

// For a Linux bridge; needs nftables and kernel 5.16.
Lines bridge_rules(const RoceRules& rules);
Lines bridge_rules_undone(const RoceRules& rules);

// For a bridge of Open vSwitch, 2.16 or later.
Lines open_vswitch_rules(const RoceRules& rules);
Lines open_vswitch_rules_undone(const RoceRules& rules);

}  // namespace pvrdma::ctl
