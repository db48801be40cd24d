// AdapterFault: faults injected into what one adapter sends: on the paths between adapters a fault decorator
// around each transport, which its port takes as detours; on the path to native endpoints a filter of its
// frames. Who has none pays nothing.
//
// Thread: made by any thread; from install() to remove() shard-owned. Its memory goes back on a thread of the
// reaper: a late message's copy may have touched many pages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapters/faults.h"
#include "base/reaper.h"
#include "base/time.h"
#include "fabric/port.h"
#include "fabric/transports.h"
#include "shard/loop.h"
#include "transport/fault/fault.h"
#include "transport/fault/frame_fault.h"
#include "transport/roce/roce.h"

namespace pvrdma::adapters {

class AdapterFault final : public Reapable {
 public:
  // What faults stand around; all borrowed, and outliving this.
  struct Paths {
    const fabric::Transports& transports;
    transport::Inbound& inbound;
    transport::Roce* roce;  // null: there is none
    const Clock& clock;
  };
  // `wish` has its seed.
  static std::shared_ptr<AdapterFault> create(std::uint64_t id, const FaultWish& wish, const Paths& paths,
                                              std::shared_ptr<ReaperQueue> queue);

  // From the next message of the port and its engine on. Once, from a task of the loop.
  void install(fabric::Port& port, const verbs::Engine& engine, shard::Loop& loop);
  // Nothing is injected any more; what is late is lost.
  void remove(fabric::Port& port, const verbs::Engine& engine, shard::Loop& loop);
  // What is late is delivered now.
  void deliver_all(Instant now);
  // An engine of this host goes away.
  void forget(const verbs::Engine& engine);

  std::uint64_t id() const { return id_; }
  FaultState state() const;

 private:
  AdapterFault(std::uint64_t id, const FaultWish& wish, const Paths& paths);

  const std::uint64_t id_;
  const FaultWish wish_;
  std::vector<std::unique_ptr<transport::Fault>> faults_;  // by path
  fabric::Transports detours_;                             // those
  transport::Roce* const roce_;                            // null: there is none
  transport::FrameFault frames_;
};

}  // namespace pvrdma::adapters
