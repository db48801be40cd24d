// Where the sockets of a VM's QEMU are, in a folder beside the socket of its adapter: its monitor, and what a
// new QEMU that is to take the VM over listens on. There are two places for monitors, used in turn: the new
// QEMU has its own while the old one still runs.
//
// Thread: any.
#pragma once

#include <array>
#include <string>

namespace pvrdma::vmm {

struct VmMonitors {
  std::string folder;                   // VmmFolder
  std::array<std::string, 2> monitors;  // the first: of a QEMU that boots the VM
  std::string main;                     // migration channels of a QEMU that waits for the VM
  std::string cpr;
};

// The names of these sockets in their folder.
inline constexpr std::array kSocketNames = {"qmp", "next.qmp", "main", "cpr"};

// `socket`: the adapter's, "/run/pvrdma/VM-01.sock".
VmMonitors monitors_beside(const std::string& socket);

struct MonitorsInUse {
  std::string current;  // a QEMU listens there; the first where none does
  std::string next;     // the other one
};
// Asks the kernel.
MonitorsInUse monitors_in_use(const VmMonitors& places);

}  // namespace pvrdma::vmm
