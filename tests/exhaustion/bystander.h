// Bystander: the guest of adapter B, who must notice nothing of what A and exhaustion do. Thread: the test's.
#pragma once

#include <memory>
#include <string>

#include "exhaustion/daemon_process.h"
#include "support/rc_endpoint.h"

namespace pvrdma::test {

class Bystander {
 public:
  // Connects, and connects two QPs of its own with each other.
  explicit Bystander(const DaemonProcess& daemon);

  // Each empty when all is as it was, otherwise what is wrong: registers answer, a write arrives and
  // completes, nothing odd was sent to it; and, as the API shows, its objects are there.
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
