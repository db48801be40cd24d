#include "fabric/port.h"

#include <utility>

#include "base/check.h"

namespace pvrdma::fabric {

Port::Port(std::string name, Switch& fabric_switch) : name_(std::move(name)), switch_(fabric_switch) {
  ++switch_.port_count_;
}

Port::~Port() {
  detach();
  switch_.unbind_all(*this);
  --switch_.port_count_;
}

void Port::attach(verbs::Engine& engine) {
  PVRDMA_CHECK(inbound_ == nullptr, "a port has one adapter at a time");
  inbound_ = switch_.local_.open(engine);
  switch_.changed();
}

void Port::detach() {
  if (inbound_ == nullptr) return;
  switch_.changed();  // first: from here on no route leads to the channel
  inbound_.reset();
}

void Port::set_link(bool up) {
  if (link_up_ == up) return;
  link_up_ = up;
  switch_.changed();
}

void Port::send_request(verbs::PeerRoute& route, const verbs::Request& request,
                        const guestmem::SpanList& payload, Instant now) {
  transport::Channel* channel = resolve(route, request.from.gid, request.to.gid);
  if (channel == nullptr) return;
  count_sent(payload);
  channel->send_request(request, payload, now);
}

void Port::send_response(verbs::PeerRoute& route, const verbs::Response& response,
                         const guestmem::SpanList& payload, Instant now) {
  transport::Channel* channel = resolve(route, response.from.gid, response.to.gid);
  if (channel == nullptr) return;
  count_sent(payload);
  channel->send_response(response, payload, now);
}

void Port::send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload, Instant now) {
  transport::Channel* channel = look_up(datagram.from.gid, datagram.to.gid);
  if (channel == nullptr) return;
  count_sent(payload);
  channel->send_datagram(datagram, payload, now);
}

bool Port::bind_gid(const verbs::Gid& gid) {
  return switch_.bind(*this, gid);
}

void Port::unbind_gid(const verbs::Gid& gid) {
  switch_.unbind(*this, gid);
}

// A route to nowhere is looked up each time: there are few such messages, and each must be counted by its
// reason.
transport::Channel* Port::resolve(verbs::PeerRoute& route, const verbs::Gid& from, const verbs::Gid& to) {
  if (route.generation == switch_.generation_ && route.target != nullptr) [[likely]] {
    return static_cast<transport::Channel*>(route.target);
  }
  transport::Channel* channel = look_up(from, to);
  route.target = channel;
  route.generation = switch_.generation_;
  return channel;
}

// A QP keeps the source GID it connected with. Once that is unbound another VM may bind it, and nobody may
// speak in its name: every bind and unbind changes the generation, so that a connection's next message is
// checked here.
transport::Channel* Port::look_up(const verbs::Gid& from, const verbs::Gid& to) {
  Switch::Found found = switch_.find(to);
  if (!link_up_) {
    found = {nullptr, DropReason::kLinkDown};
  } else if (!switch_.holds(*this, from)) {
    found = {nullptr, DropReason::kForeignSource};
  }
  if (found.channel == nullptr) ++counters_.dropped[static_cast<std::size_t>(found.dropped)];
  return found.channel;
}

void Port::count_sent(const guestmem::SpanList& payload) {
  PortCounters::Sent& sent = counters_.sent[static_cast<std::size_t>(PathKind::kLocal)];
  ++sent.messages;
  sent.payload_bytes += payload.bytes();
}

}  // namespace pvrdma::fabric
