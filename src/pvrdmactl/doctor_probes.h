// What `pvrdmactl doctor` asks this machine itself. Thread: any; each function blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pvrdma::ctl {

struct QemuProbe {
  std::string program;
  std::string version_text;  // what --version printed; empty: it cannot be run
  std::string trouble;       // why it cannot be run
  bool has_device = false;   // vfio-user-pci
};
QemuProbe probe_qemu(const std::string& program);

struct MonitorProbe {
  std::string path;  // where a QEMU listens; if none does, where one that boots the VM should
  int error = 0;     // the errno of connecting there
  std::vector<std::string> arguments;  // of that QEMU; empty: they cannot be read
};
// `adapter_socket`: "/run/pvrdma/VM-01.sock". The monitors lie in a folder beside it.
MonitorProbe probe_monitor(std::string_view adapter_socket);

struct ClockProbe {
  bool is_synchronised = false;  // by the kernel's own account
  long error_ms = 0;             // the kernel's estimate of the largest error
};
ClockProbe probe_clock();

}  // namespace pvrdma::ctl
