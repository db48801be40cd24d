// Buried: what may sleep while it is destroyed, and so is given away for that (worker.h). Thread: one at a
// time.
#pragma once

#include <memory>

namespace pvrdma::transport::hca {

class Buried {
 public:
  virtual ~Buried() = default;

  std::unique_ptr<Buried> next;  // of a list of those that wait
};

}  // namespace pvrdma::transport::hca
