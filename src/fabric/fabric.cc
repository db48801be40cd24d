#include "fabric/fabric.h"

#include <type_traits>
#include <utility>

#include "fabric/port.h"

namespace pvrdma::fabric {

using transport::Delivery;

Fabric::Fabric(const Clock& clock, FabricObserver* observer)
    : clock_(clock), own_(std::make_unique<HostGids>(1)), host_(*own_), observer_(observer) {}

Fabric::Fabric(const Clock& clock, HostGids& host, transport::ShardNumber shard, FabricObserver* observer)
    : clock_(clock), host_(host), shard_(shard), observer_(observer) {}

Fabric::~Fabric() = default;

void Fabric::watch_lenders(Blame& blame, Lenders::Tell tell) {
  lenders_ = std::make_unique<Lenders>(blame, host_, std::move(tell));
}

void Fabric::use(transport::Transport& transport) {
  transports_.use(transport);
  for (const auto& [id, each] : segments_) each->transports_changed();
}

void Fabric::drop(PathKind kind) {
  transports_.drop(kind);
  for (const auto& [id, each] : segments_) {
    each->transports_changed();
    each->paths_ready();  // senders that waited for room need not wait any more
  }
}

Switch& Fabric::segment(transport::SegmentId id) {
  if (const auto found = segments_.find(id); found != segments_.end()) return *found->second;
  auto made = std::make_unique<Switch>(id, transports_, clock_, host_, shard_, observer_);
  made->set_view(view_);
  return *segments_.emplace(id, std::move(made)).first->second;
}

void Fabric::set_view(View view) {
  if (view_is_everywhere_ && view == view_) return;
  view_ = std::move(view);
  view_is_everywhere_ = false;
  for (const auto& [id, each] : segments_) each->set_view(view_);
  view_is_everywhere_ = true;
}

std::uint64_t Fabric::sum(std::uint64_t (Switch::*count)() const) const {
  std::uint64_t total = 0;
  for (const auto& [id, each] : segments_) total += (*each.*count)();
  return total;
}

template <typename Message, typename Deliver>
Delivery Fabric::receive(transport::HostId from, transport::SegmentId segment, const Message& message,
                         Instant now, Deliver deliver) {
  const auto found = segments_.find(segment);
  if (segment == transport::SegmentId{} || found == segments_.end()) return Delivery::kUnknownGid;
  const Switch::Admission admission = found->second->admit(from, message.from.gid, message.to.gid);
  if (admission.port == nullptr) return admission.verdict;
  verbs::Engine* const engine = admission.port->receiver();
  if (engine != nullptr && admission.verdict == Delivery::kDelivered) {
    deliver(*engine, admission);
  } else if constexpr (std::is_same_v<Message, verbs::Request>) {
    verbs::Engine* const later = engine != nullptr ? engine : admission.port->stopped_engine();
    if (later != nullptr) later->on_early_request(message, verbs::PeerPlace(from.value), now);
  }
  return admission.verdict;
}

Delivery Fabric::on_request(transport::HostId from, PathKind by, transport::SegmentId segment,
                            const verbs::Request& request, verbs::Payload& payload, Instant now) {
  return receive(from, segment, request, now, [&](verbs::Engine& engine, const Switch::Admission& admission) {
    transport::Transport* const brought = transports_.find(by);
    if (brought == nullptr || admission.way == nullptr || brought == admission.way)
      return engine.on_request(request, payload, now);
    // The two hosts disagree about the path; the sender's path may be the only one that works.
    admission.port->answer_by(*brought, {.host = from, .segment = segment}, {request.to, request.from});
    engine.on_request(request, payload, now);
    admission.port->answer_as_usual();
  });
}

Delivery Fabric::on_response(transport::HostId from, transport::SegmentId segment,
                             const verbs::Response& response, verbs::Payload& payload, Instant now) {
  return receive(from, segment, response, now, [&](verbs::Engine& engine, const Switch::Admission&) {
    engine.on_response(response, payload, now);
  });
}

Delivery Fabric::on_datagram(transport::HostId from, transport::SegmentId segment,
                             const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                             Instant now) {
  return receive(from, segment, datagram, now, [&](verbs::Engine& engine, const Switch::Admission&) {
    engine.on_datagram(datagram, payload, now);
  });
}

// Nothing records which connections wait for which host, so all are woken; those that do not wait do nothing.
void Fabric::on_ready(transport::HostId /*host*/, Instant /*now*/) {
  for (const auto& [id, each] : segments_) each->paths_ready();
}

void Fabric::on_restored(transport::HostId host, Instant now) {
  for (const auto& [id, each] : segments_) each->paths_restored(host, now);
}

verbs::Engine* Fabric::find_pair(transport::HostId host, const transport::VmPair& pair) {
  const auto found = segments_.find(pair.segment);
  if (found == segments_.end()) return nullptr;
  const Switch::Admission admission = found->second->admit(host, pair.peer, pair.own);
  return admission.verdict == Delivery::kDelivered ? admission.port->receiver() : nullptr;
}

void Fabric::on_pair_restored(transport::HostId host, const transport::VmPair& pair,
                              const std::function<bool(verbs::Qpn own)>& affected, Instant now) {
  verbs::Engine* const engine = find_pair(host, pair);
  if (engine == nullptr) return;
  engine->on_path_restored(
      [&](const verbs::Endpoint& own, const verbs::Endpoint& peer) {
        return peer.gid == pair.peer && own.gid == pair.own && affected(own.qpn);
      },
      now);
}

void Fabric::on_returned(verbs::Engine& engine, verbs::Qpn qpn, std::uint32_t rkey) {
  engine.on_returned(qpn, rkey);
}

// The path to the host may have changed. A sender that waits for the host is woken by on_ready(), or uses
// another path.
void Fabric::on_up_changed(transport::HostId host, Instant /*now*/) {
  for (const auto& [id, each] : segments_) {
    each->transports_changed();
    each->paths_ready();
  }
  if (observer_ != nullptr) observer_->on_host_up(host, transports_.is_up(host));
}

transport::SiblingInbound::Admission Fabric::admit(transport::ShardNumber from, transport::SegmentId segment,
                                                   const verbs::Gid& source, const verbs::Gid& destination) {
  const auto found = segments_.find(segment);
  Port* const port = found != segments_.end() ? found->second->admit(from, source, destination) : nullptr;
  if (port == nullptr) return {};
  if (verbs::Engine* const engine = port->receiver(); engine != nullptr)
    return {.engine = engine, .lender = lender_of(segment, source)};
  return {.engine = port->stopped_engine(), .is_early = true};
}

Blame::Party* Fabric::lender_of(transport::SegmentId segment, const verbs::Gid& source) {
  if (lenders_ == nullptr || !lenders_->are_watched()) [[likely]]
    return nullptr;
  const auto holder = host_.find(segment, source);
  return holder ? lenders_->find(holder->port) : nullptr;
}

void Fabric::on_room() {
  for (const auto& [id, each] : segments_) each->paths_ready();
}

void Fabric::on_restored(transport::ShardNumber shard, Instant now) {
  for (const auto& [id, each] : segments_) each->paths_restored(shard, std::nullopt, now);
}

void Fabric::on_works_again(transport::ShardNumber shard, transport::SegmentId segment,
                            HostGids::PortNumber port, Instant now) {
  if (const auto found = segments_.find(segment); found != segments_.end())
    found->second->paths_restored(shard, port, now);
}

transport::NativeInbound::Admission Fabric::admit(transport::SegmentId segment, const verbs::Gid& source,
                                                  const verbs::Gid& destination, const Mac& destination_mac) {
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return {transport::Entry::kUnknownGid, nullptr};
  const Switch::NativeAdmission admission = found->second->admit_native(source, destination, destination_mac);
  return {admission.verdict, admission.port != nullptr ? admission.port->receiver() : nullptr};
}

void Fabric::on_room(transport::SegmentId segment) {
  if (const auto found = segments_.find(segment); found != segments_.end()) found->second->paths_ready();
}

}  // namespace pvrdma::fabric
