// Fabric: one shard's part of all distributed switches. It has one Switch for each segment, and receives
// messages from other hosts.
//
// Thread: shard-owned.
#pragma once

#include <map>
#include <memory>

#include "base/blame.h"
#include "base/time.h"
#include "fabric/fabric_observer.h"
#include "fabric/host_gids.h"
#include "fabric/lenders.h"
#include "fabric/switch.h"
#include "fabric/transports.h"
#include "fabric/view.h"
#include "transport/transport.h"

namespace pvrdma::fabric {

class Fabric final : public transport::Inbound,
                     public transport::SiblingInbound,
                     public transport::NativeInbound {
 public:
  // Of the only shard of a host. Borrowed; both outlive the fabric. `observer` may be null.
  explicit Fabric(const Clock& clock, FabricObserver* observer = nullptr);
  // Of one shard; `host` knows the GIDs of all. Borrowed; outlives the fabric.
  Fabric(const Clock& clock, HostGids& host, transport::ShardNumber shard,
         FabricObserver* observer = nullptr);
  ~Fabric() override;  // all ports have been destroyed before
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // Adapters of other shards are blamed for what reading their memory takes this shard. `blame` is borrowed.
  void watch_lenders(Blame& blame, Lenders::Tell tell);

  // Adds a transport, at most one of each kind. Borrowed until drop().
  void use(transport::Transport& transport);
  // Removes a transport. Connections that used it have no path until they find another. On an empty stack.
  void drop(PathKind kind);
  const Transports& transports() const { return transports_; }

  // The switch of a segment. Made at the first call; lives as long as the fabric.
  Switch& segment(transport::SegmentId id);

  // Replaces what is known of other hosts. An equal view changes nothing. If memory runs out (bad_alloc),
  // only some segments have the new view, and the caller must call again.
  void set_view(View view);
  const View& view() const { return view_; }

  // The sum over all segments.
  std::uint64_t duplicates_refused() const { return sum(&Switch::duplicates_refused); }
  std::uint64_t foreign_refused() const { return sum(&Switch::foreign_refused); }
  std::uint64_t gids_lost() const { return sum(&Switch::gids_lost); }

  // Inbound: called by transports on an empty stack. Messages to the segment that is local to this daemon are
  // refused.
  transport::Delivery on_request(transport::HostId from, PathKind by, transport::SegmentId segment,
                                 const verbs::Request& request, verbs::Payload& payload,
                                 Instant now) override;
  transport::Delivery on_response(transport::HostId from, transport::SegmentId segment,
                                  const verbs::Response& response, verbs::Payload& payload,
                                  Instant now) override;
  transport::Delivery on_datagram(transport::HostId from, transport::SegmentId segment,
                                  const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                                  Instant now) override;
  void on_ready(transport::HostId host, Instant now) override;
  void on_restored(transport::HostId host, Instant now) override;
  void on_up_changed(transport::HostId host, Instant now) override;

  verbs::Engine* find_pair(transport::HostId host, const transport::VmPair& pair) override;
  void on_pair_restored(transport::HostId host, const transport::VmPair& pair,
                        const std::function<bool(verbs::Qpn own)>& affected, Instant now) override;
  void on_returned(verbs::Engine& engine, verbs::Qpn qpn, std::uint32_t rkey) override;
  // SiblingInbound: the same for messages from the host's other shards. Those to the segment that is local to
  // this daemon may come in.
  transport::SiblingInbound::Admission admit(transport::ShardNumber from, transport::SegmentId segment,
                                             const verbs::Gid& source,
                                             const verbs::Gid& destination) override;
  void on_room() override;
  void on_restored(transport::ShardNumber shard, Instant now) override;
  // The port of another shard works again: what HostGids::set_tell() says. On an empty stack.
  void on_works_again(transport::ShardNumber shard, transport::SegmentId segment, HostGids::PortNumber port,
                      Instant now);
  // NativeInbound: the same for packets from outside the cluster.
  transport::NativeInbound::Admission admit(transport::SegmentId segment, const verbs::Gid& source,
                                            const verbs::Gid& destination,
                                            const Mac& destination_mac) override;
  void on_room(transport::SegmentId segment) override;

 private:
  std::uint64_t sum(std::uint64_t (Switch::*count)() const) const;
  // Null while nobody watches the lenders.
  Blame::Party* lender_of(transport::SegmentId segment, const verbs::Gid& source);
  template <typename Message, typename Deliver>
  transport::Delivery receive(transport::HostId from, transport::SegmentId segment, const Message& message,
                              Instant now, Deliver deliver);

  const Clock& clock_;
  const std::unique_ptr<HostGids> own_;  // null: the host has several shards
  HostGids& host_;
  const transport::ShardNumber shard_;
  FabricObserver* observer_;
  std::unique_ptr<Lenders> lenders_;  // null: nobody watches them
  Transports transports_;
  View view_;
  bool view_is_everywhere_ = true;  // false: memory ran out before all segments had the view
  std::map<transport::SegmentId, std::unique_ptr<Switch>> segments_;
};

}  // namespace pvrdma::fabric
