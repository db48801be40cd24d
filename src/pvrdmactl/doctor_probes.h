// What `pvrdmactl doctor` asks this machine itself. Thread: any; each function blocks.
#pragma once

#include <string>

namespace pvrdma::ctl {

struct QemuProbe {
  std::string program;
  std::string version_text;  // what --version printed; empty: it cannot be run
  std::string trouble;       // why it cannot be run
  bool has_device = false;   // vfio-user-pci
};
QemuProbe probe_qemu(const std::string& program);

// The path of the monitor beside an adapter's socket, as vm qemu-args places it.
std::string monitor_path(const std::string& adapter_socket);
// The errno of a connection to a UNIX socket; 0: something listens there.
int connect_error(const std::string& path);

}  // namespace pvrdma::ctl
