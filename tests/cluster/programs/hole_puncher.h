// HolePuncher: a VMM that takes memory away at the moment at which its guest has the daemon touch it. The
// kernel lets the touch sleep until the hole is there, and with it all adapters of that shard
// (docs/threat_model.md).
//
// Thread: one, that of the device.
#pragma once

#include <cstdint>
#include <future>
#include <memory>

#include "base/fd.h"
#include "driver/driver.h"

namespace pvrdma::test {

class HolePuncher {
 public:
  // `device` is borrowed. Errors: std::runtime_error, as those of touch().
  explicit HolePuncher(driver::Device& device);

  // Has the daemon touch a page while the hole is punched. Fills the memory again when it is there.
  void touch();

 private:
  driver::Device& device_;
  const Fd file_;
  const std::unique_ptr<driver::ProtectionDomain> pd_;
  std::uint64_t touched_ = 0;
  std::future<void> hole_;
};

}  // namespace pvrdma::test
