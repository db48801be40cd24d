#include "support/testbench.h"

namespace pvrdma::test {

Testbench::Testbench(const TestbenchOptions& options)
    : Machines(options), switch_(transport::SegmentId{}, transports_, clock(), host_) {
  transports_.use(options.transport != nullptr ? *options.transport : local_);
  for (std::uint32_t index = 0; index < count(); ++index) place(index, switch_);
}

Testbench::~Testbench() {
  for (std::uint32_t index = 0; index < count(); ++index) remove(index);  // before the switch
}

}  // namespace pvrdma::test
