// The commands of programs, and the time.
#include "cm/manager.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>

#include "base/ib_time.h"
#include "base/mapped_address.h"
#include "cm/private_data.h"

namespace pvrdma::cm {
namespace {

constexpr std::uint16_t kFirstFreePort = 32768;
constexpr std::uint16_t kLastFreePort = 60999;
constexpr std::uint8_t kAckDelay = 15;
constexpr std::uint32_t kPsnMask = 0xff'ffff;
// An orphan's last message is repeated so often: the peer may be slow, and the wire lossy.
constexpr std::uint8_t kOrphanRetries = 7;

constexpr Gid kIpv6Loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr Duration kTimewait = 2 * ib_time(kPacketLifetime) + ib_time(kAckDelay);

Failure wrong_state(const char* what) {
  return fail(EINVAL, fmt::format("the id is in no state to {}", what));
}

bool is_loopback(const Gid& ip) {
  return is_mapped(ip) ? ip[12] == 127 : ip == kIpv6Loopback;
}

// Addresses of one kind reach each other.
enum class Kind : std::uint8_t { kIpv4, kIpv6, kLinkLocal };

Kind kind_of(const Gid& ip) {
  if (is_mapped(ip)) return Kind::kIpv4;
  return is_link_local(ip) ? Kind::kLinkLocal : Kind::kIpv6;
}

// Erases the key's entry if it names the id.
template <typename Map>
void erase_if_of(Map& map, const typename Map::key_type& key, Handle id) {
  if (const auto found = map.find(key); found != map.end() && found->second == id) map.erase(found);
}

}  // namespace

Manager::Manager(Options options)
    : options_(std::move(options)),
      next_port_(static_cast<std::uint16_t>(kFirstFreePort + options_.random() % 16384)) {}

const Connection* Manager::find(Handle id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() || found->second.is_orphan() ? nullptr : &found->second;
}

Result<Connection*> Manager::live(Handle id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.is_orphan())
    return fail(ENOENT, fmt::format("there is no id {}", id));
  return &found->second;
}

// Makes room for one more connection of the program, by ending its oldest orphans and then the oldest of all
// programs. False, and nothing has happened: ids that programs have, and requests, leave no room.
bool Manager::make_room(Program program, const Limits& limits) {
  if (connections_.size() - orphans_.size() >= limits.of_all) return false;
  if (const auto account = accounts_.find(program); account != accounts_.end()) {
    const Account& own = account->second;
    if (own.connections - own.orphans.size() >= limits.of_program) return false;
    // Cannot be the account's last connection, which takes the account with it.
    while (own.connections >= limits.of_program) erase(own.orphans.begin()->second);
  }
  while (connections_.size() >= limits.of_all) erase(orphans_.begin()->second);
  return true;
}

Handle Manager::add(Connection connection) {
  while (next_handle_ == 0 || connections_.contains(next_handle_)) ++next_handle_;
  ++accounts_[connection.program].connections;
  connections_.emplace(next_handle_, std::move(connection));
  return next_handle_++;
}

Result<Handle> Manager::create(Program program, PortSpace space) {
  if (!make_room(program, kCreated))
    return fail(ENOMEM, fmt::format("the program has {} connections, or all programs have {}: destroy ids",
                                    kCreated.of_program, kCreated.of_all));
  return add({.space = space, .program = program});
}

void Manager::erase(Handle id) {
  Connection& connection = connections_.at(id);
  drop_pending(id, connection);
  forget_wire(id, connection);
  set_deadline(id, connection, Instant::never());
  release_port(id, connection);
  const auto account = accounts_.find(connection.program);
  if (connection.is_orphan()) {
    orphans_.erase(connection.orphan_number);
    account->second.orphans.erase(connection.orphan_number);
  }
  if (--account->second.connections == 0) accounts_.erase(account);
  connections_.erase(id);
}

// The program has destroyed the id. What is left of the connection ends soon, whatever the peer has asked
// for.
void Manager::orphan(Handle id, Connection& connection, Instant now) {
  connection.orphan_number = next_orphan_number_++;
  orphans_[connection.orphan_number] = id;
  accounts_.at(connection.program).orphans[connection.orphan_number] = id;
  if (connection.state != State::kDreqSent) return;
  connection.response_time = std::min(connection.response_time, ib_time(options_.timeout));
  connection.retries_left = std::min(connection.retries_left, kOrphanRetries);
  set_deadline(id, connection, std::min(connection.deadline, now + connection.response_time));
}

void Manager::release_port(Handle id, Connection& connection) {
  if (!connection.holds_port) return;
  connection.holds_port = false;
  const auto [first, last] = ports_.equal_range(connection.local.port);
  ports_.erase(std::find_if(first, last, [&](const auto& each) { return each.second == id; }));
  if (connection.state == State::kListening) listeners_.erase({connection.space, connection.local});
}

void Manager::forget_wire(Handle id, const Connection& connection) {
  erase_if_of(by_comm_id_, connection.local_id, id);
  erase_if_of(by_peer_id_, PeerKey{connection.remote.ip, connection.remote_id}, id);
  erase_if_of(by_peer_request_, PeerKey{connection.remote.ip, connection.remote_id}, id);
  forget_peer_qpn(id, connection);
}

void Manager::forget_peer_qpn(Handle id, const Connection& connection) {
  erase_if_of(by_peer_qpn_, PeerKey{connection.remote.ip, connection.peer.qpn}, id);
}

void Manager::drop_pending(Handle id, Connection& connection) {
  if (!connection.listener) return;
  if (const auto listener = connections_.find(*connection.listener); listener != connections_.end())
    listener->second.pending.erase(id);
  connection.listener.reset();
}

void Manager::note_delivered(Handle id) {
  if (const auto found = connections_.find(id); found != connections_.end()) drop_pending(id, found->second);
}

bool Manager::is_own(const Gid& ip) const {
  return std::ranges::find(options_.addresses, ip) != options_.addresses.end();
}

std::optional<Gid> Manager::own_like(const Gid& ip) const {
  const auto found =
      std::ranges::find_if(options_.addresses, [&](const Gid& each) { return kind_of(each) == kind_of(ip); });
  return found == options_.addresses.end() ? std::nullopt : std::optional(*found);
}

bool Manager::is_port_free(const Connection& asking, const Endpoint& local, bool listening) const {
  const auto [first, last] = ports_.equal_range(local.port);
  return std::none_of(first, last, [&](const auto& each) {
    const Connection& other = connections_.at(each.second);
    if (&other == &asking || other.space != asking.space) return false;
    const bool overlap = other.local.ip == local.ip || other.local.ip == Gid{} || local.ip == Gid{};
    const bool shared =
        asking.may_share_port && other.may_share_port && !listening && other.state != State::kListening;
    return overlap && !shared;
  });
}

Result<std::uint16_t> Manager::free_port(const Connection& asking, const Gid& ip) {
  for (int tries = kFirstFreePort; tries <= kLastFreePort; ++tries) {
    if (next_port_ < kFirstFreePort || next_port_ > kLastFreePort) next_port_ = kFirstFreePort;
    const std::uint16_t port = next_port_++;
    if (is_port_free(asking, {ip, port}, false)) return port;
  }
  return fail(EADDRNOTAVAIL, "all ports of the adapter are in use");
}

void Manager::hold_port(Handle id, Connection& connection, const Endpoint& local) {
  connection.local = local;
  connection.holds_port = true;
  ports_.emplace(local.port, id);
}

Result<> Manager::bind(Handle id, const Endpoint& local) {
  const auto connection = live(id);
  if (!connection) return Failure(connection.error());
  if ((*connection)->state != State::kIdle || (*connection)->holds_port) return wrong_state("be bound");
  Endpoint taken = local;
  if (is_loopback(taken.ip)) taken.ip = {};
  if (taken.ip != Gid{} && !is_own(taken.ip))
    return fail(EADDRNOTAVAIL, "the address is none of the adapter's");
  if (taken.port == 0) {
    const auto port = free_port(**connection, taken.ip);
    if (!port) return Failure(port.error());
    taken.port = *port;
  } else if (!is_port_free(**connection, taken, false)) {
    return fail(EADDRINUSE, fmt::format("port {} is in use", taken.port));
  }
  hold_port(id, **connection, taken);
  return {};
}

Result<> Manager::share_port(Handle id, bool shared) {
  const auto connection = live(id);
  if (!connection) return Failure(connection.error());
  (*connection)->may_share_port = shared;
  return {};
}

Result<> Manager::resolve(Handle id, const Endpoint& source, const Endpoint& destination) {
  const auto connection = live(id);
  if (!connection) return Failure(connection.error());
  if ((*connection)->state != State::kIdle) return wrong_state("resolve an address");
  Endpoint local = (*connection)->holds_port ? (*connection)->local : source;
  Endpoint remote = destination;
  if (local.ip == Gid{}) {
    const auto own =
        own_like(remote.ip == Gid{} && !options_.addresses.empty() ? options_.addresses.front() : remote.ip);
    if (!own) return fail(ENODEV, "the adapter has no address of that kind");
    local.ip = *own;
  }
  if (!is_own(local.ip)) return fail(EADDRNOTAVAIL, "the source is none of the adapter's addresses");
  if (remote.ip == Gid{}) remote.ip = local.ip;
  if (kind_of(local.ip) != kind_of(remote.ip)) return fail(EINVAL, "the addresses are of two kinds");
  if (is_loopback(remote.ip)) return fail(ENODEV, "loopback addresses belong to no adapter");
  if (!(*connection)->holds_port) {
    if (local.port == 0) {
      const auto port = free_port(**connection, local.ip);
      if (!port) return Failure(port.error());
      local.port = *port;
    } else if (!is_port_free(**connection, local, false)) {
      return fail(EADDRINUSE, fmt::format("port {} is in use", local.port));
    }
    hold_port(id, **connection, local);
  }
  (*connection)->local = local;
  (*connection)->remote = remote;
  (*connection)->mtu = options_.mtu;
  (*connection)->state = State::kResolved;
  return {};
}

Result<> Manager::listen(Handle id, std::uint32_t backlog) {
  const auto connection = live(id);
  if (!connection) return Failure(connection.error());
  if ((*connection)->state != State::kIdle) return wrong_state("listen");
  if (!(*connection)->holds_port) {
    if (auto bound = bind(id, {}); !bound) return bound;
  } else if (!is_port_free(**connection, (*connection)->local, true)) {
    return fail(EADDRINUSE, fmt::format("port {} is in use", (*connection)->local.port));
  }
  (*connection)->state = State::kListening;
  listeners_[{(*connection)->space, (*connection)->local}] = id;
  (*connection)->backlog = backlog == 0 || backlog > kBacklogMax ? kBacklogMax : backlog;
  if ((*connection)->space == PortSpace::kTcp) try_parked((*connection)->local.port);
  return {};
}

void Manager::give_comm_id(Handle id, Connection& connection) {
  do {
    connection.local_id = static_cast<std::uint32_t>(options_.random());
  } while (connection.local_id == 0 || by_comm_id_.contains(connection.local_id));
  by_comm_id_[connection.local_id] = id;
  connection.local_psn = static_cast<std::uint32_t>(options_.random()) & kPsnMask;
}

Result<> Manager::connect(Handle id, const Parameters& own, std::span<const std::byte> private_data,
                          Instant now) {
  const auto found = live(id);
  if (!found) return Failure(found.error());
  Connection& connection = **found;
  if (connection.state != State::kResolved) return wrong_state("connect");
  if (connection.space == PortSpace::kUdp) return ask_for_qp(id, connection, private_data, now);
  Req req;
  if (auto copied = copy_private(private_data, kIpHeaderBytes, req.private_data); !copied) return copied;
  give_comm_id(id, connection);
  connection.transaction = options_.random();
  connection.own = own;
  connection.ack_timeout = options_.ack_timeout;
  connection.retry_count = own.retry_count;
  connection.retries = options_.retries;
  connection.response_time = ib_time(options_.timeout);
  put_ip_header({connection.local.port, connection.local.ip, connection.remote.ip}, req.private_data);
  req.local_id = connection.local_id;
  req.service_id = service_of_port(PortSpace::kTcp, connection.remote.port);
  req.ca_guid = options_.ca_guid;
  req.qpn = own.qpn;
  req.responder_resources = own.responder_resources;
  req.initiator_depth = own.initiator_depth;
  req.remote_timeout = options_.timeout;
  req.flow_control = own.flow_control;
  req.starting_psn = connection.local_psn;
  req.local_timeout = options_.timeout;
  req.retry_count = own.retry_count;
  req.pkey = kDefaultPkey;
  req.mtu = options_.mtu;
  req.rnr_retry = own.rnr_retry;
  req.max_cm_retries = options_.retries;
  req.srq = own.srq;
  req.local_gid = connection.local.ip;
  req.remote_gid = connection.remote.ip;
  req.hop_limit = kHopLimit;
  req.ack_timeout = options_.ack_timeout;
  connection.state = State::kReqSent;
  send_until_answered(id, connection, req, now);
  return {};
}

Result<> Manager::accept(Handle id, const Parameters& own, std::span<const std::byte> private_data,
                         Instant now) {
  const auto found = live(id);
  if (!found) return Failure(found.error());
  Connection& connection = **found;
  if (connection.state != State::kReqReceived) return wrong_state("accept");
  if (connection.space == PortSpace::kUdp) return give_qp(id, connection, own.qpn, private_data, now);
  Rep rep;
  if (auto copied = copy_private(private_data, 0, rep.private_data); !copied) return copied;
  connection.own = own;
  rep.local_id = connection.local_id;
  rep.remote_id = connection.remote_id;
  rep.qpn = own.qpn;
  rep.starting_psn = connection.local_psn;
  rep.responder_resources = own.responder_resources;
  rep.initiator_depth = own.initiator_depth;
  rep.ack_delay = kAckDelay;
  rep.flow_control = own.flow_control;
  rep.rnr_retry = own.rnr_retry;
  rep.srq = own.srq;
  rep.ca_guid = options_.ca_guid;
  connection.state = State::kRepSent;
  send_until_answered(id, connection, rep, now);
  return {};
}

Result<> Manager::confirm(Handle id) {
  const auto found = live(id);
  if (!found) return Failure(found.error());
  Connection& connection = **found;
  if (connection.state != State::kRepReceived) return wrong_state("confirm the connection");
  connection.state = State::kEstablished;
  const Rtu rtu{connection.local_id, connection.remote_id};
  connection.repeated = build({connection.transaction, rtu});
  connection.has_repeated = true;
  repeat(connection);
  return {};
}

Result<> Manager::reject(Handle id, std::uint16_t reason, std::span<const std::byte> private_data,
                         Instant now) {
  const auto found = live(id);
  if (!found) return Failure(found.error());
  if (private_data.size() > kRejPrivateBytes)
    return fail(EINVAL, fmt::format("{} bytes of private data: at most {} fit", private_data.size(),
                                    kRejPrivateBytes));
  switch ((*found)->state) {
    case State::kReqReceived:
      if ((*found)->space == PortSpace::kUdp) return refuse_qp(id, **found, private_data, now);
      send_rej(id, **found, About::kReq, reason, private_data, now);
      return {};
    case State::kRepReceived:
      send_rej(id, **found, About::kRep, reason, private_data, now);
      return {};
    default:
      return wrong_state("reject");
  }
}

Result<> Manager::disconnect(Handle id, Instant now) {
  const auto found = live(id);
  if (!found) return Failure(found.error());
  switch ((*found)->state) {
    case State::kIdle:
    case State::kResolved:
    case State::kListening:
      return wrong_state("disconnect");
    case State::kReqSent:  // as in the kernel, there is nothing to disconnect yet
    case State::kReqReceived:
      return {};
    case State::kRepReceived:
    case State::kRepSent:
    case State::kEstablished:
      if ((*found)->space == PortSpace::kTcp) send_dreq(id, **found, now);
      return {};
    case State::kDreqSent:
    case State::kTimewait:
    case State::kClosed:
      return {};
  }
  return {};
}

Result<> Manager::note_established(Handle id) {
  const auto found = live(id);
  if (!found) return Failure(found.error());
  Connection& connection = **found;
  if (connection.state == State::kEstablished) return {};
  if (connection.state != State::kRepSent) return wrong_state("be established");
  connection.state = State::kEstablished;
  set_deadline(id, connection, Instant::never());
  raise(EventType::kEstablished, id, connection);
  return {};
}

Result<> Manager::destroy(Handle id, Instant now) {
  const auto found = live(id);
  if (!found) return Failure(found.error());
  if ((*found)->state == State::kListening) {
    refuse_pending(**found, now);
    if ((*found)->space == PortSpace::kTcp) parked_.note_closed((*found)->local.port, now);
  }
  end(id, **found, now);
  return {};
}

void Manager::refuse_pending(Connection& listener, Instant now) {
  for (const Handle id : std::exchange(listener.pending, {})) end(id, connections_.at(id), now);
}

void Manager::end(Handle id, Connection& connection, Instant now) {
  const State state = connection.state;
  if (state == State::kIdle || state == State::kResolved || state == State::kListening) return erase(id);
  if (connection.space == PortSpace::kUdp) {
    end_datagram_id(id, connection, now);
  } else {
    end_connection(id, connection, now);
  }
  drop_pending(id, connection);
  release_port(id, connection);  // others may bind it from now on
  orphan(id, connection, now);
  if (connection.deadline == Instant::never()) erase(id);
}

// Says to the peer that the connection is over.
void Manager::end_connection(Handle id, Connection& connection, Instant now) {
  switch (connection.state) {
    case State::kReqSent:
      send_rej(id, connection, About::kOther, static_cast<std::uint16_t>(Reason::kTimeout), {}, now);
      break;
    case State::kReqReceived:
      send_rej(id, connection, About::kReq, static_cast<std::uint16_t>(Reason::kConsumer), {}, now);
      break;
    case State::kRepReceived:
      send_rej(id, connection, About::kRep, static_cast<std::uint16_t>(Reason::kConsumer), {}, now);
      break;
    case State::kRepSent:  // the peer may be established, and then asks nothing any more: a REJ could be lost
    case State::kEstablished:
      send_dreq(id, connection, now);
      break;
    case State::kIdle:
    case State::kResolved:
    case State::kListening:
    case State::kDreqSent:
    case State::kTimewait:
    case State::kClosed:
      break;
  }
}

Result<QpAttributes> Manager::qp_attributes(Handle id) const {
  const Connection* const connection = find(id);
  if (connection == nullptr) return fail(ENOENT, fmt::format("there is no id {}", id));
  switch (connection->state) {
    case State::kReqReceived:
    case State::kRepReceived:
    case State::kRepSent:
    case State::kEstablished:
      break;
    default:
      return wrong_state("give its QP attributes");
  }
  return QpAttributes{.local = connection->local.ip,
                      .remote = connection->remote.ip,
                      .remote_qpn = connection->peer.qpn,
                      .rq_psn = connection->local_psn,
                      .sq_psn = connection->remote_psn,
                      .mtu = connection->mtu,
                      .max_dest_rd_atomic = connection->peer.responder_resources,
                      .max_rd_atomic = connection->peer.initiator_depth,
                      .retry_count = connection->retry_count,
                      .rnr_retry = connection->peer.rnr_retry,
                      .ack_timeout = connection->ack_timeout};
}

void Manager::send(const Connection& connection, const Body& body) {
  datagrams_.push_back({connection.local.ip, connection.remote.ip, build({connection.transaction, body})});
}

void Manager::repeat(Connection& connection) {
  if (connection.has_repeated)
    datagrams_.push_back({connection.local.ip, connection.remote.ip, connection.repeated});
}

void Manager::send_until_answered(Handle id, Connection& connection, const Body& body, Instant now) {
  connection.repeated = build({connection.transaction, body});
  connection.has_repeated = true;
  connection.retries_left = connection.retries;
  connection.was_put_off = false;
  repeat(connection);
  set_deadline(id, connection, now + connection.response_time);
}

void Manager::send_rej(Handle id, Connection& connection, About about, std::uint16_t reason,
                       std::span<const std::byte> private_data, Instant now) {
  Rej rej;
  rej.local_id = connection.local_id;
  rej.remote_id = connection.remote_id;
  rej.about = about;
  rej.reason = reason;
  if (reason == static_cast<std::uint16_t>(Reason::kTimeout)) rej.ca_guid = options_.ca_guid;
  std::copy_n(private_data.begin(), std::min(private_data.size(), kRejPrivateBytes),
              rej.private_data.begin());
  connection.repeated = build({connection.transaction, rej});
  connection.has_repeated = true;
  repeat(connection);
  close(id, connection, now);
}

void Manager::send_dreq(Handle id, Connection& connection, Instant now) {
  connection.transaction = options_.random();
  connection.state = State::kDreqSent;
  send_until_answered(id, connection, Dreq{connection.local_id, connection.remote_id, connection.peer.qpn},
                      now);
}

void Manager::raise(EventType type, Handle id, const Connection& connection, std::int32_t status,
                    std::span<const std::byte> private_data) {
  if (connection.is_orphan()) return;
  events_.push_back({.type = type,
                     .id = id,
                     .listener = connection.listener.value_or(0),
                     .space = connection.space,
                     .status = status,
                     .peer = connection.peer,
                     .private_data = {private_data.begin(), private_data.end()}});
}

void Manager::set_deadline(Handle id, Connection& connection, Instant when) {
  if (connection.deadline != Instant::never()) timers_.erase({connection.deadline, id});
  connection.deadline = when;
  if (when != Instant::never()) timers_.insert({when, id});
}

void Manager::enter_timewait(Handle id, Connection& connection, Instant now) {
  connection.state = State::kTimewait;
  set_deadline(id, connection, now + kTimewait);
}

// As long as the peer may repeat its last message. It may try again with the same QP at once.
void Manager::close(Handle id, Connection& connection, Instant now) {
  connection.state = State::kClosed;
  forget_peer_qpn(id, connection);
  set_deadline(id, connection, now + 2 * connection.response_time);
}

void Manager::give_up(Handle id, Connection& connection, Instant now) {
  if (connection.space == PortSpace::kUdp) {
    end_request(id, connection, State::kClosed);
    return raise(EventType::kUnreachable, id, connection, -ETIMEDOUT);
  }
  if (connection.state == State::kDreqSent) {
    raise(EventType::kDisconnected, id, connection, -ETIMEDOUT);
    enter_timewait(id, connection, now);
    return;
  }
  const About about = connection.state == State::kReqSent ? About::kReq : About::kRep;
  raise(EventType::kUnreachable, id, connection, -ETIMEDOUT);
  send_rej(id, connection, about, static_cast<std::uint16_t>(Reason::kTimeout), {}, now);
}

Instant Manager::deadline() const {
  return timers_.empty() ? parked_.deadline() : std::min(timers_.begin()->first, parked_.deadline());
}

void Manager::run_timers(Instant now) {
  refuse_parked(now);
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const Handle id = timers_.begin()->second;
    Connection& connection = connections_.at(id);
    const bool is_over = connection.state == State::kTimewait || connection.state == State::kClosed;
    const bool has_answered = connection.state == State::kEstablished;  // an id for datagrams
    if (is_over || has_answered) {
      if (connection.state == State::kTimewait) raise(EventType::kTimewaitExit, id, connection);
      if (is_over) connection.state = State::kClosed;
      forget_wire(id, connection);
      set_deadline(id, connection, Instant::never());
      if (connection.is_orphan()) erase(id);
    } else if (connection.retries_left == 0) {
      give_up(id, connection, now);
    } else {
      --connection.retries_left;
      repeat(connection);
      set_deadline(id, connection, now + connection.response_time);
    }
  }
}

}  // namespace pvrdma::cm
