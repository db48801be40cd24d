// Clutter: objects of every kind without traffic, made and destroyed at random, so that a client that dies
// leaves some of each kind behind.
//
// There are never more than kPilesMax piles at once. Thread: the Device's.
#pragma once

#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "driver/driver.h"

namespace pvrdma::test {

class Clutter {
 public:
  Clutter(driver::Device& device, std::mt19937_64& random) : device_(device), random_(random) {}

  // Makes or destroys a pile, `steps` times. Errors: the device refuses, or is gone.
  Result<> stir(std::uint32_t steps);

  std::size_t piles() const { return piles_.size(); }

 private:
  static constexpr std::size_t kPilesMax = 12;

  // The objects that a process of a guest might have. They are destroyed in reverse order.
  struct Pile {
    std::unique_ptr<driver::Context> context;  // null: the kernel's
    std::unique_ptr<driver::ProtectionDomain> pd;
    std::unique_ptr<driver::CompletionQueue> cq;
    std::unique_ptr<driver::Buffer> buffer;
    std::vector<std::unique_ptr<driver::MemoryRegion>> regions;
    std::unique_ptr<driver::SharedReceiveQueue> srq;
    std::vector<std::unique_ptr<driver::QueuePair>> qps;
  };

  std::uint32_t up_to(std::uint32_t most) { return static_cast<std::uint32_t>(random_() % (most + 1)); }
  Result<> make();
  Result<> make_qps(Pile& pile, driver::Context& context);

  driver::Device& device_;
  std::mt19937_64& random_;
  std::vector<std::unique_ptr<Pile>> piles_;
};

}  // namespace pvrdma::test
