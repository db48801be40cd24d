// Rdma: an RDMA NIC through libibverbs. Thread: as nic.h says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/hca/nic.h"

namespace pvrdma::transport::hca {

// As OpenNic. Errors: no such device; it may not be opened.
Result<std::shared_ptr<Nic>> open_rdma(const std::string& device, NicUser& user);

// The names of those that libibverbs lists.
std::vector<std::string> rdma_devices();

}  // namespace pvrdma::transport::hca
