// How the manager handles the messages of peers.
#include <algorithm>

#include "base/ib_time.h"
#include "cm/manager.h"

namespace pvrdma::cm {
namespace {

// Timeouts that a peer may ask for: 4.096 us * 2^n, 134 ms to 8.6 s, or to 69 s for its program to decide.
constexpr std::uint8_t kTimeoutMin = 15;
constexpr std::uint8_t kTimeoutMax = 21;
constexpr std::uint8_t kServiceTimeout = 24;  // how long a program of either side may take to decide
constexpr std::uint8_t kReliableConnected = 0;

Duration bounded_time(std::uint8_t exponent, std::uint8_t max) {
  return ib_time(std::clamp(exponent, kTimeoutMin, max));
}

}  // namespace

void Manager::receive(const Gid& from, const Gid& to, std::span<const std::byte> mad, Instant now) {
  const auto message = parse(mad);
  if (!message) return;
  const Origin origin{from, to, message->transaction, now};
  std::visit([&](const auto& body) { on(origin, body); }, message->body);
}

// Answers a message that belongs to no connection.
void Manager::answer(const Origin& origin, const Body& body) {
  datagrams_.push_back({origin.to, origin.from, build({origin.transaction, body})});
}

void Manager::refuse(const Origin& origin, const Req& req, Reason reason) {
  Rej rej;
  rej.remote_id = req.local_id;
  rej.about = About::kReq;
  rej.reason = static_cast<std::uint16_t>(reason);
  answer(origin, rej);
}

// What this end has given the number `local_id` towards `from`.
std::optional<Manager::Found> Manager::by_local_id(PortSpace space, const Gid& from, std::uint32_t local_id) {
  const auto found = by_comm_id_.find(local_id);
  if (found == by_comm_id_.end()) return std::nullopt;
  Connection& connection = connections_.at(found->second);
  if (connection.space != space || connection.remote.ip != from) return std::nullopt;
  return Found{found->second, &connection};
}

// The connection that a message of `from` names. `remote_id` is the sender's own id.
std::optional<Manager::Found> Manager::by_comm_id(const Gid& from, std::uint32_t local_id,
                                                  std::uint32_t remote_id) {
  const auto found = by_local_id(PortSpace::kTcp, from, local_id);
  const bool is_its =
      found && (found->connection->remote_id == 0 || found->connection->remote_id == remote_id);
  return is_its ? found : std::nullopt;
}

// A port has one listener for each address, or one for all.
std::optional<Manager::Found> Manager::listener_of(PortSpace space, const Endpoint& local) {
  auto found = listeners_.find({space, local});
  if (found == listeners_.end()) found = listeners_.find({space, {Gid{}, local.port}});
  if (found == listeners_.end()) return std::nullopt;
  return Found{found->second, &connections_.at(found->second)};
}

void Manager::on_duplicate(const Req& req, Connection& connection) {
  switch (connection.state) {
    case State::kReqReceived:  // the program has not decided yet
      send(connection, Mra{connection.local_id, req.local_id, About::kReq, kServiceTimeout});
      return;
    case State::kRepSent:
    case State::kClosed:
      repeat(connection);
      return;
    case State::kDreqSent:  // the peer has heard no REP
      send(connection, Rej{.local_id = connection.local_id,
                           .remote_id = connection.remote_id,
                           .about = About::kReq,
                           .reason = static_cast<std::uint16_t>(Reason::kConsumer)});
      return;
    default:  // it was under way for long
      return;
  }
}

std::optional<Connection> Manager::requested(const Found& listener, const Origin& origin,
                                             const IpHeader& header) {
  const Connection& asked = *listener.connection;
  if (asked.pending.size() >= asked.backlog || !make_room(asked.program, kRequested)) return std::nullopt;
  Connection made;
  made.state = State::kReqReceived;
  made.space = asked.space;
  made.program = asked.program;
  made.local = {header.destination, asked.local.port};
  made.remote = {origin.from, header.source_port};
  made.listener = listener.id;
  made.transaction = origin.transaction;
  return made;
}

void Manager::on(const Origin& origin, const Req& req) {
  const PeerKey peer_id{origin.from, req.local_id};
  if (const auto known = by_peer_id_.find(peer_id); known != by_peer_id_.end())
    return on_duplicate(req, connections_.at(known->second));

  const auto port = port_of_service(PortSpace::kTcp, req.service_id);
  const auto header = parse_ip_header(req.private_data);
  if (!port || !header || !is_own(header->destination)) return refuse(origin, req, Reason::kInvalidServiceId);
  if (req.service_type != kReliableConnected) return refuse(origin, req, Reason::kUnsupported);
  // A sender that lies about its address would have its answers sent to somebody else.
  if (header->source != origin.from || req.local_id == 0) return refuse(origin, req, Reason::kInvalidCommId);
  const auto listener = listener_of(PortSpace::kTcp, {header->destination, *port});
  if (!listener) {
    const ParkedRequest request{origin.from, origin.to, origin.transaction, req, *port, origin.now};
    return parked_.park(request) ? void() : refuse(origin, req, Reason::kInvalidServiceId);
  }

  const PeerKey peer_qpn{origin.from, req.qpn};
  if (const auto stale = by_peer_qpn_.find(peer_qpn); stale != by_peer_qpn_.end()) {
    // The peer has a new connection on that QP, so the one known here is over.
    Connection& old = connections_.at(stale->second);
    if (old.state == State::kEstablished) send_dreq(stale->second, old, origin.now);
    return refuse(origin, req, Reason::kStaleConnection);
  }
  auto made = requested(*listener, origin, *header);
  if (!made) return refuse(origin, req, Reason::kNoResources);
  made->remote_id = req.local_id;
  made->remote_psn = req.starting_psn;
  made->peer = {.qpn = req.qpn,
                .responder_resources = req.initiator_depth,
                .initiator_depth = req.responder_resources,
                .retry_count = req.retry_count,
                .rnr_retry = req.rnr_retry,
                .flow_control = req.flow_control,
                .srq = req.srq};
  made->mtu = req.mtu;
  made->ack_timeout = req.ack_timeout;
  made->retry_count = req.retry_count;
  made->retries = req.max_cm_retries;
  made->response_time = bounded_time(req.local_timeout, kTimeoutMax);
  const Handle id = add(*std::move(made));
  listener->connection->pending.insert(id);
  Connection& connection = connections_.at(id);
  give_comm_id(id, connection);
  by_peer_id_[peer_id] = id;
  by_peer_qpn_[peer_qpn] = id;
  raise(EventType::kConnectRequest, id, connection, 0, std::span(req.private_data).subspan(kIpHeaderBytes));
}

void Manager::try_parked(std::uint16_t port) {
  for (const ParkedRequest& each : parked_.take(port))
    on(Origin{each.from, each.to, each.transaction, each.since}, each.req);
}

void Manager::refuse_parked(Instant now) {
  for (const ParkedRequest& each : parked_.take_due(now))
    refuse(Origin{each.from, each.to, each.transaction, now}, each.req, Reason::kInvalidServiceId);
}

void Manager::on(const Origin& origin, const Mra& mra) {
  const auto found = by_comm_id(origin.from, mra.remote_id, mra.local_id);
  if (!found || found->connection->was_put_off) return;
  const State state = found->connection->state;
  const bool waits = (state == State::kReqSent && mra.about == About::kReq) ||
                     (state == State::kRepSent && mra.about == About::kRep);
  if (!waits) return;
  found->connection->was_put_off = true;
  const Duration service_time = bounded_time(mra.service_timeout, kServiceTimeout);
  set_deadline(found->id, *found->connection, origin.now + service_time + found->connection->response_time);
}

void Manager::on(const Origin& origin, const Rep& rep) {
  const auto found = by_comm_id(origin.from, rep.remote_id, rep.local_id);
  if (!found) {
    Rej rej;
    rej.local_id = rep.remote_id;
    rej.remote_id = rep.local_id;
    rej.about = About::kRep;
    rej.reason = static_cast<std::uint16_t>(Reason::kInvalidCommId);
    return answer(origin, rej);
  }
  Connection& connection = *found->connection;
  switch (connection.state) {
    case State::kReqSent:
      break;
    case State::kRepReceived:  // the program has not decided yet
      return send(connection, Mra{connection.local_id, rep.local_id, About::kRep, kServiceTimeout});
    case State::kEstablished:
    case State::kClosed:
      return repeat(connection);
    default:
      return;
  }
  connection.state = State::kRepReceived;
  connection.remote_id = rep.local_id;
  connection.remote_psn = rep.starting_psn;
  // The peer may lower what this end has asked for.
  connection.peer = {.qpn = rep.qpn,
                     .responder_resources = std::min(connection.own.responder_resources, rep.initiator_depth),
                     .initiator_depth = std::min(connection.own.initiator_depth, rep.responder_resources),
                     .retry_count = 0,
                     .rnr_retry = rep.rnr_retry,
                     .flow_control = rep.flow_control,
                     .srq = rep.srq};
  by_peer_qpn_.try_emplace({origin.from, rep.qpn}, found->id);
  set_deadline(found->id, connection, Instant::never());
  raise(EventType::kConnectResponse, found->id, connection, 0, rep.private_data);
}

void Manager::on(const Origin& origin, const Rtu& rtu) {
  const auto found = by_comm_id(origin.from, rtu.remote_id, rtu.local_id);
  if (found && found->connection->state == State::kRepSent) (void)note_established(found->id);
}

void Manager::on(const Origin& origin, const Rej& rej) {
  auto found = by_comm_id(origin.from, rej.remote_id, rej.local_id);
  parked_.forget(origin.from, rej.local_id);
  if (!found) {  // a peer that gives up before it has heard of this end names only itself
    const auto known = by_peer_id_.find({origin.from, rej.local_id});
    if (rej.remote_id != 0 || known == by_peer_id_.end()) return;
    found = Found{known->second, &connections_.at(known->second)};
  }
  Connection& connection = *found->connection;
  switch (connection.state) {
    case State::kReqSent:
    case State::kRepReceived:
    case State::kReqReceived:
    case State::kRepSent:
      raise(EventType::kRejected, found->id, connection, rej.reason, rej.private_data);
      connection.has_repeated = false;  // a REJ is never answered
      close(found->id, connection, origin.now);
      if (connection.is_orphan()) erase(found->id);
      return;
    case State::kEstablished:  // the peer has heard no RTU, or its program has ended meanwhile
    case State::kDreqSent:     // the peer knows the connection no more
      raise(EventType::kDisconnected, found->id, connection);
      enter_timewait(found->id, connection, origin.now);
      return;
    default:
      return;
  }
}

void Manager::on(const Origin& origin, const Dreq& dreq) {
  const auto found = by_comm_id(origin.from, dreq.remote_id, dreq.local_id);
  if (!found) return answer(origin, Drep{dreq.remote_id, dreq.local_id});
  Connection& connection = *found->connection;
  switch (connection.state) {
    case State::kRepReceived:
    case State::kRepSent:
    case State::kEstablished:
    case State::kDreqSent:  // both ends disconnect
      if (dreq.remote_qpn != connection.own.qpn && connection.state != State::kRepReceived) return;
      connection.transaction = origin.transaction;
      connection.repeated = build({origin.transaction, Drep{connection.local_id, connection.remote_id}});
      connection.has_repeated = true;
      repeat(connection);
      raise(EventType::kDisconnected, found->id, connection);
      enter_timewait(found->id, connection, origin.now);
      return;
    case State::kReqSent:  // the peer has consented and left, and its REP is lost
      answer(origin, Drep{connection.local_id, dreq.local_id});
      raise(EventType::kRejected, found->id, connection, static_cast<std::int32_t>(Reason::kConsumer));
      connection.has_repeated = false;
      close(found->id, connection, origin.now);
      return;
    case State::kTimewait:
    case State::kClosed:
      answer(origin, Drep{connection.local_id, dreq.local_id});
      return;
    default:
      return;
  }
}

void Manager::on(const Origin& origin, const Drep& drep) {
  const auto found = by_comm_id(origin.from, drep.remote_id, drep.local_id);
  if (!found || found->connection->state != State::kDreqSent) return;
  raise(EventType::kDisconnected, found->id, *found->connection);
  enter_timewait(found->id, *found->connection, origin.now);
}

}  // namespace pvrdma::cm
