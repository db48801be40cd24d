// AdapterFault: faults injected into what one adapter sends. On the paths between adapters, each transport
// gets a fault decorator, and the adapter's port takes the decorators as detours. On the path to native
// endpoints, the adapter's frames pass a filter. Adapters without faults pay nothing.
//
// Thread: made by any thread; from install() to remove() shard-owned. Its memory is freed on a thread of the
// reaper, because the copies of late messages may have touched many pages.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "adapters/faults.h"
#include "base/events.h"
#include "base/reaper.h"
#include "base/time.h"
#include "fabric/port.h"
#include "fabric/transports.h"
#include "shard/loop.h"
#include "transport/fault/fault.h"
#include "transport/fault/frame_fault.h"
#include "transport/roce/roce.h"

namespace pvrdma::adapters {

// What the events about the fault of this adapter are about.
inline events::Subject fault_of(std::string_view adapter) {
  return {events::Type::kFault, events::Kind::kVm, adapter};
}

class AdapterFault final : public Reapable {
 public:
  // The transports that the faults wrap. All are borrowed and outlive this.
  struct Paths {
    const fabric::Transports& transports;
    transport::Inbound& inbound;
    transport::Roce* roce;  // null: this host has no RoCE transport
    const Clock& clock;
  };
  // `wish` has its seed set.
  static std::shared_ptr<AdapterFault> create(std::uint64_t id, const FaultWish& wish, const Paths& paths,
                                              std::shared_ptr<ReaperQueue> queue);

  // Takes effect with the next message of the port and its engine. Called once, from a task of the loop.
  void install(fabric::Port& port, const verbs::Engine& engine, shard::Loop& loop);
  // Stops injecting and drops late messages.
  void remove(fabric::Port& port, const verbs::Engine& engine, shard::Loop& loop);
  // Delivers late messages at once.
  void deliver_all(Instant now);
  // An engine of this host is about to be destroyed.
  void forget(const verbs::Engine& engine);

  std::uint64_t id() const { return id_; }
  FaultState state() const;
  FaultCounts counts() const;

 private:
  AdapterFault(std::uint64_t id, const FaultWish& wish, const Paths& paths);

  const std::uint64_t id_;
  const FaultWish wish_;
  std::vector<std::unique_ptr<transport::Fault>> faults_;  // one for each path
  fabric::Transports detours_;                             // the transports of faults_
  transport::Roce* const roce_;                            // null: this host has no RoCE transport
  transport::FrameFault frames_;
};

}  // namespace pvrdma::adapters
