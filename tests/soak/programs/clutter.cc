#include "clutter.h"

#include <utility>

#include "support/rc_endpoint.h"

namespace pvrdma::test {
namespace {

// Stores the value in `place`, or returns the Error.
template <typename T>
Result<> keep(Result<std::unique_ptr<T>> made, std::unique_ptr<T>& place) {
  if (!made) return Failure(std::move(made.error()));
  place = std::move(*made);
  return {};
}

}  // namespace

Result<> Clutter::stir(std::uint32_t steps) {
  for (std::uint32_t step = 0; step < steps; ++step) {
    const bool full = piles_.size() == kPilesMax;
    if (full || (!piles_.empty() && up_to(2) == 0)) {
      std::swap(piles_[up_to(static_cast<std::uint32_t>(piles_.size()) - 1)], piles_.back());
      piles_.pop_back();
    } else if (auto done = make(); !done) {
      return done;
    }
  }
  return {};
}

Result<> Clutter::make() {
  auto pile = std::make_unique<Pile>();
  if (up_to(1) == 0) {
    if (auto done = keep(driver::Context::create_user(device_), pile->context); !done) return done;
  }
  driver::Context& context = pile->context ? *pile->context : device_.kernel();
  if (auto done = keep(driver::ProtectionDomain::create(context), pile->pd); !done) return done;
  if (auto done = keep(driver::CompletionQueue::create(context, 1 + up_to(1000)), pile->cq); !done)
    return done;
  const std::size_t bytes = 1 + up_to(512 * 1024);
  if (auto done = keep(device_.ram().allocate(bytes), pile->buffer); !done) return done;
  for (std::uint32_t count = up_to(4); count > 0; --count) {
    auto made = driver::MemoryRegion::of_buffer(*pile->pd, *pile->buffer, kFullAccess);
    if (!made) return Failure(std::move(made.error()));
    pile->regions.push_back(std::move(*made));
  }
  if (auto done = make_qps(*pile, context); !done) return done;
  piles_.push_back(std::move(pile));
  return {};
}

Result<> Clutter::make_qps(Pile& pile, driver::Context& context) {
  if (!context.is_kernel() && up_to(1) == 0) {  // only user contexts have SRQs
    if (auto done = keep(driver::SharedReceiveQueue::create(*pile.pd), pile.srq); !done) return done;
  }
  for (std::uint32_t count = up_to(6); count > 0; --count) {
    auto made =
        driver::QueuePair::create(*pile.pd, {.type = up_to(2) == 0 ? abi::QpType::kUd : abi::QpType::kRc,
                                             .send_cq = pile.cq.get(),
                                             .recv_cq = pile.cq.get(),
                                             .srq = pile.srq.get()});
    if (!made) return Failure(std::move(made.error()));
    pile.qps.push_back(std::move(*made));
    if (auto done = pile.qps.back()->to_init({}); !done) return done;
  }
  return {};
}

}  // namespace pvrdma::test
