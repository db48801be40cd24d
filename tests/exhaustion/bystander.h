// Bystander: the guest of adapter B. It must not notice A or the exhaustion. Thread: the test's.
#pragma once

#include <memory>
#include <string>

#include "exhaustion/daemon_process.h"
#include "support/rc_endpoint.h"

namespace pvrdma::test {

class Bystander {
 public:
  // Connects to the daemon, and connects two QPs with each other.
  explicit Bystander(const DaemonProcess& daemon);

  // Each returns an empty text if all is well, or what is wrong. As a guest: registers answer, a write
  // arrives and completes, and nothing odd was received. By the API: its objects exist.
  std::string trouble_as_a_guest();
  std::string trouble();

 private:
  const DaemonProcess& daemon_;
  std::unique_ptr<driver::Device> device_;
  std::unique_ptr<RcEndpoint> from_;
  std::unique_ptr<RcEndpoint> to_;
  nlohmann::json objects_;
  std::uint8_t turn_ = 0;
};

}  // namespace pvrdma::test
