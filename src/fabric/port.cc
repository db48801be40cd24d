#include "fabric/port.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "transport/nowhere.h"

namespace pvrdma::fabric {
namespace {

// How long it may take until all hosts know where the VM is.
constexpr Duration kArrivalTime = std::chrono::seconds(1);

}  // namespace

Port::Port(std::string name, PortIdentity identity, Switch& fabric_switch)
    : SwitchPort(fabric_switch.generation_),
      name_(std::move(name)),
      identity_(std::move(identity)),
      switch_(fabric_switch),
      number_(switch_.host_.add_port(switch_.segment(), name_, identity_.addresses)) {
  try {
    switch_.ports_.push_back(this);
  } catch (const std::bad_alloc&) {
    switch_.host_.remove_port(switch_.segment(), number_, identity_.addresses);
    throw;
  }
}

Port::~Port() {
  detach();
  switch_.unbind_all(*this);
  switch_.host_.remove_port(switch_.segment(), number_, identity_.addresses);
  std::erase(switch_.ports_, this);
}

void Port::attach(verbs::Engine& engine) {
  PVRDMA_CHECK(!attached(), "a port has one adapter at a time");
  join(engine);
  seat(engine);
}

void Port::join(verbs::Engine& engine) {
  try {
    switch_.transports_.each([&](transport::Transport& transport) { transport.join(engine); });
  } catch (const std::bad_alloc&) {
    switch_.transports_.each([&](transport::Transport& transport) { transport.take_back(engine, {}); });
    throw;
  }
}

void Port::seat(verbs::Engine& engine) {
  engine_ = &engine;
  switch_.tell_reach(*this);
}

void Port::detach() {
  if (!attached()) return;
  on_unmapping({});
  engine_ = nullptr;
  switch_.tell_reach(*this);
}

void Port::wait() {
  PVRDMA_CHECK(!attached(), "a port waits from its begin");
  waits_ = true;
}

void Port::arrive() {
  arrived_at_ = switch_.clock_.now();
  while (!waiting_.empty()) {
    static_cast<void>(switch_.bind(*this, waiting_.back(), Switch::Claim::kArrives));
    waiting_.pop_back();
  }
  waits_ = false;
}

void Port::depart() {
  switch_.note_departure(*this);
  switch_.unbind_all(*this);
  waits_ = true;
}

HostGids::Holder Port::as_holder() const {
  return {.shard = switch_.shard_, .port = number_, .reach = reach()};
}

void Port::set_link(bool up) {
  if (link_up_ == up) return;
  link_up_ = up;
  switch_.tell_reach(*this);
}

std::uint64_t Port::set_stopped(bool stopped) {
  if (stopped_ == stopped) return 0;
  stopped_ = stopped;
  switch_.tell_reach(*this);
  if (stopped) {
    if (engine_ != nullptr) engine_->stop_loans();
    return 0;
  }
  if (engine_ != nullptr) engine_->on_path_ready();
  return switch_.works_again(*this);
}

HostGids::Reach Port::reach() const {
  if (!link_up_) return HostGids::Reach::kLinkDown;
  if (!attached()) return HostGids::Reach::kDetached;
  return stopped_ ? HostGids::Reach::kStopped : HostGids::Reach::kWorks;
}

// All transports are asked: the QP's path may have changed since the operation began.
void Port::stop(const verbs::Connection& connection) {
  if (engine_ == nullptr) return;
  switch_.transports_.each(
      [&](transport::Transport& transport) { transport.stop(switch_.segment(), connection); });
}

void Port::stop_all() {
  if (engine_ == nullptr) return;
  switch_.transports_.each([&](transport::Transport& transport) { transport.stop_all(*engine_); });
}

void Port::on_unmapping(std::span<const std::byte> memory) {
  if (engine_ == nullptr) return;
  switch_.transports_.each([&](transport::Transport& transport) { transport.take_back(*engine_, memory); });
}

// Senders that wait for room on the old path must ask the new one.
void Port::set_detours(const Transports* detours) {
  detours_ = detours;
  switch_.changed();
  if (engine_ != nullptr) engine_->on_path_ready();
}

// A path to nowhere needs no other treatment: the switch's generation changes when a better path exists.
void Port::open_path(const verbs::Connection& connection, verbs::PathSlot& slot) {
  const Switch::Found found = look_up(connection.local.gid, connection.remote.gid);
  if (found.transport == nullptr) {
    slot.open<transport::Nowhere>(counters_.dropped_for(found.dropped), clause_of(found.dropped));
  } else {
    found.transport->open(found.place, connection, counters_.sent_by(found.transport->kind()), slot);
  }
}

void Port::answer_by(transport::Transport& transport, const transport::Place& place,
                     const verbs::Connection& connection) {
  transport.open(place, connection, counters_.sent_by(transport.kind()), answer_slot_);
  set_answer_path(&*answer_slot_);
}

void Port::answer_as_usual() {
  set_answer_path(nullptr);
  answer_slot_.close();
}

bool Port::send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload, Instant now) {
  const Switch::Found found = look_up(datagram.from.gid, datagram.to.gid);
  if (found.transport == nullptr) {
    ++counters_.dropped_for(found.dropped);
    return true;
  }
  return found.transport->send_datagram(found.place, datagram, payload,
                                        counters_.sent_by(found.transport->kind()), now);
}

bool Port::spares_retries(const verbs::Gid& peer, Instant now) const {
  return has_just_come(now) || switch_.is_back_soon(peer, now);
}

std::optional<verbs::PeerPlace> Port::place_of(const verbs::Gid& peer) const {
  return switch_.place_of(peer);
}

bool Port::has_just_come(Instant now) const {
  return arrived_at_ && now < *arrived_at_ + kArrivalTime;
}

void Port::flush(Instant now) {
  switch_.transports_.flush(now);
}

bool Port::bind_gid(const verbs::Gid& gid) {
  if (!waits_) return switch_.bind(*this, gid, predecessor_ ? Switch::Claim::kFollows : Switch::Claim::kNew);
  waiting_.push_back(gid);
  return true;
}

void Port::unbind_gid(const verbs::Gid& gid) {
  if (!waits_) {
    switch_.unbind(*this, gid);
  } else if (const auto it = std::find(waiting_.begin(), waiting_.end(), gid); it != waiting_.end()) {
    waiting_.erase(it);
  }
}

verbs::Engine* Port::receiver() {
  if (!link_up_) {
    ++counters_.dropped_for(DropReason::kLinkDown);
    return nullptr;
  }
  if (takes_messages()) return engine_;
  ++counters_.dropped_for(DropReason::kPortDetached);
  return nullptr;
}

// A QP keeps the source GID that it connected with. After that GID was unbound, another VM may bind it, and
// the first VM must not send with it any more. Every bind and unbind changes the generation, so the
// connection's next message is checked here.
Switch::Found Port::look_up(const verbs::Gid& from, const verbs::Gid& to) const {
  if (!link_up_) return {nullptr, {}, DropReason::kLinkDown};
  if (stopped_) return {nullptr, {}, DropReason::kPortDetached};
  if (!switch_.holds(*this, from)) return {nullptr, {}, DropReason::kForeignSource};
  Switch::Found found = switch_.find(to, this);
  found.place.sender = engine_;
  found.place.sender_mac = identity_.mac;
  if (detours_ != nullptr && found.transport != nullptr) {
    if (auto* detour = detours_->find(found.transport->kind()); detour != nullptr) found.transport = detour;
  }
  return found;
}

}  // namespace pvrdma::fabric
