#include "fabric/port.h"

#include <utility>

#include "base/check.h"

namespace pvrdma::fabric {

Port::Port(std::string name, Switch& fabric_switch) : name_(std::move(name)), switch_(fabric_switch) {
  switch_.ports_.push_back(this);
}

Port::~Port() {
  detach();
  switch_.unbind_all(*this);
  std::erase(switch_.ports_, this);
}

void Port::attach(verbs::Engine& engine) {
  PVRDMA_CHECK(!attached(), "a port has one adapter at a time");
  engine_ = &engine;
  inbound_ = Way{PathKind::kLocal, switch_.local_.open(engine)};
  switch_.changed();
}

void Port::detach() {
  if (!attached()) return;
  switch_.changed();  // first: from here on no route leads to the channel
  engine_ = nullptr;
  inbound_ = Way{};
}

void Port::set_link(bool up) {
  if (link_up_ == up) return;
  link_up_ = up;
  switch_.changed();
}

verbs::Sent Port::send_request(verbs::PeerRoute& route, const verbs::Request& request,
                               const guestmem::SpanList& payload, Instant now) {
  const Way* way = resolve(route, request.from.gid, request.to.gid);
  if (way == nullptr) return verbs::Sent::kTaken;  // into nothing: the sender's timer tells
  const verbs::Sent sent = way->channel->send_request(request, payload, now);
  if (sent == verbs::Sent::kTaken) count_sent(way->kind, payload);
  return sent;
}

void Port::send_response(verbs::PeerRoute& route, const verbs::Response& response,
                         const guestmem::SpanList& payload, Instant now) {
  const Way* way = resolve(route, response.from.gid, response.to.gid);
  if (way == nullptr) return;
  count_sent(way->kind, payload);
  way->channel->send_response(response, payload, now);
}

void Port::send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload, Instant now) {
  const Way* way = look_up(datagram.from.gid, datagram.to.gid);
  if (way == nullptr) return;
  count_sent(way->kind, payload);
  way->channel->send_datagram(datagram, payload, now);
}

void Port::flush(Instant now) {
  switch_.flush(now);
}

bool Port::bind_gid(const verbs::Gid& gid) {
  return switch_.bind(*this, gid);
}

void Port::unbind_gid(const verbs::Gid& gid) {
  switch_.unbind(*this, gid);
}

verbs::Engine* Port::receiver() {
  if (!link_up_) {
    count_dropped(DropReason::kLinkDown);
    return nullptr;
  }
  if (!attached()) count_dropped(DropReason::kPortDetached);
  return engine_;
}

// A route to nowhere is looked up each time: there are few such messages, and each must be counted by its
// reason.
const Way* Port::resolve(verbs::PeerRoute& route, const verbs::Gid& from, const verbs::Gid& to) {
  if (route.generation == switch_.generation_ && route.target != nullptr) [[likely]] {
    return static_cast<const Way*>(route.target);
  }
  const Way* way = look_up(from, to);
  route.target = const_cast<Way*>(way);
  route.generation = switch_.generation_;
  return way;
}

// A QP keeps the source GID it connected with. Once that is unbound another VM may bind it, and nobody may
// speak in its name: every bind and unbind changes the generation, so that a connection's next message is
// checked here.
const Way* Port::look_up(const verbs::Gid& from, const verbs::Gid& to) {
  Switch::Found found = switch_.find(to);
  if (!link_up_) {
    found = {nullptr, DropReason::kLinkDown};
  } else if (!switch_.holds(*this, from)) {
    found = {nullptr, DropReason::kForeignSource};
  }
  if (found.way == nullptr) count_dropped(found.dropped);
  return found.way;
}

void Port::count_sent(PathKind kind, const guestmem::SpanList& payload) {
  PortCounters::Sent& sent = counters_.sent[static_cast<std::size_t>(kind)];
  ++sent.messages;
  sent.payload_bytes += payload.bytes();
}

}  // namespace pvrdma::fabric
