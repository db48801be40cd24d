// Rdma: accesses an RDMA NIC through libibverbs. Thread: see nic.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/hca/nic.h"

namespace pvrdma::transport::hca {

// Like OpenNic. Errors: there is no such device; opening it is not permitted.
Result<std::shared_ptr<Nic>> open_rdma(const std::string& device, NicUser& user);

// The names of the devices that libibverbs lists.
std::vector<std::string> rdma_devices();

}  // namespace pvrdma::transport::hca
