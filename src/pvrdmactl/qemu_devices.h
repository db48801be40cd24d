// The devices on a QEMU's command line, as far as an adapter's PCI slot is concerned. Thread: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pvrdma::ctl {

struct QemuDevice {
  std::string driver;
  std::string bus;  // "pcie.0" if it is not named
  unsigned long slot = 0;
  unsigned long function = 0;
  std::string mac;     // lower case; empty: not named
  std::string socket;  // of a vfio-user-pci
};

// The devices of all "-device" with an address. `arguments`: QEMU's, of any form that QEMU takes:
// "driver,key=value,..." or a JSON object. Values of other forms are ignored.
std::vector<QemuDevice> devices_of(const std::vector<std::string>& arguments);

}  // namespace pvrdma::ctl
