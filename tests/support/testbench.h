// Testbench: a whole host in one thread and under one manual clock: a switch, the local transport, and
// machines on it (machines.h). The seeded simulation of one host and the benches use it.
//
// Thread: one.
#pragma once

#include "fabric/host_gids.h"
#include "fabric/switch.h"
#include "fabric/transports.h"
#include "support/machines.h"
#include "transport/local/local.h"

namespace pvrdma::test {

using TestbenchOptions = MachineOptions;

class Testbench : public Machines {
 public:
  explicit Testbench(const TestbenchOptions& options = {});
  ~Testbench();

 private:
  transport::Local local_;
  fabric::Transports transports_;
  fabric::HostGids host_{1};
  fabric::Switch switch_;
};

}  // namespace pvrdma::test
