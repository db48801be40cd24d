// Offence: a piece of a shard's work that took long because of one adapter (base/blame.h).
//
// Thread: values; the observer is called on the shard's thread.
#pragma once

#include <string>

#include "base/time.h"

namespace pvrdma::adapters {

struct Offence {
  std::string adapter;  // its name
  Duration took{0};
};

class OffenceObserver {
 public:
  virtual ~OffenceObserver() = default;
  // Called between turns. Must not block or throw.
  virtual void on_offence(const std::string& adapter, Duration took) = 0;
};

}  // namespace pvrdma::adapters
