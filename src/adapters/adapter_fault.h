// AdapterFault: faults injected into what one adapter sends, on the paths between adapters: a fault decorator
// around each transport of theirs, which its port takes as detours. Who has none pays nothing.
//
// Thread: made by any thread; from install() to remove() shard-owned. Its memory goes back on a thread of the
// reaper: a late message's copy may have touched many pages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/reaper.h"
#include "base/time.h"
#include "control/adapter_control.h"
#include "fabric/port.h"
#include "fabric/transports.h"
#include "shard/loop.h"
#include "transport/fault/fault.h"

namespace pvrdma::adapters {

class AdapterFault final : public Reapable {
 public:
  // `wish` has its seed. `transports` and `inbound` are borrowed and outlive this.
  static std::shared_ptr<AdapterFault> create(std::uint64_t id, const control::FaultWish& wish,
                                              const fabric::Transports& transports,
                                              transport::Inbound& inbound,
                                              std::shared_ptr<ReaperQueue> queue);

  // From the port's next message on. Once, from a task of the loop.
  void install(fabric::Port& port, shard::Loop& loop);
  // Nothing is injected any more; what is late is lost.
  void remove(fabric::Port& port, shard::Loop& loop);
  // What is late is delivered now.
  void deliver_all(Instant now);
  // An engine of this host goes away.
  void forget(const verbs::Engine& engine);

  std::uint64_t id() const { return id_; }
  control::FaultState state() const;

 private:
  AdapterFault(std::uint64_t id, const control::FaultWish& wish, const fabric::Transports& transports,
               transport::Inbound& inbound);

  const std::uint64_t id_;
  const control::FaultWish wish_;
  std::vector<std::unique_ptr<transport::Fault>> faults_;  // by path
  fabric::Transports detours_;                             // those
};

}  // namespace pvrdma::adapters
