// Rdma: an RDMA NIC through libibverbs. Thread: as verbs.h says.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/hca/verbs.h"

namespace pvrdma::transport::hca {

// As OpenNic. Errors: no such device; it may not be opened.
Result<std::shared_ptr<Nic>> open_rdma(const std::string& device, NicUser& user);

}  // namespace pvrdma::transport::hca
