// Ids for datagrams (PortSpace::kUdp): one end asks for the QP of a service by SIDR_REQ, the other answers
// once by SIDR_REP. Then each end has what it needs, and there is no connection to end.
#include <cerrno>

#include "base/ib_time.h"
#include "cm/manager.h"
#include "cm/private_data.h"

namespace pvrdma::cm {

Result<> Manager::ask_for_qp(Handle id, Connection& connection, std::span<const std::byte> private_data,
                             Instant now) {
  SidrReq req;
  if (auto copied = copy_private(private_data, kIpHeaderBytes, req.private_data); !copied) return copied;
  give_comm_id(id, connection);
  connection.transaction = options_.random();
  connection.retries = options_.retries;
  connection.response_time = ib_time(options_.timeout);
  put_ip_header({connection.local.port, connection.local.ip, connection.remote.ip}, req.private_data);
  req.request_id = connection.local_id;
  req.pkey = kDefaultPkey;
  req.service_id = service_of_port(PortSpace::kUdp, connection.remote.port);
  connection.state = State::kReqSent;
  send_until_answered(id, connection, req, now);
  return {};
}

Result<> Manager::give_qp(Handle id, Connection& connection, std::uint32_t qpn,
                          std::span<const std::byte> private_data, Instant now) {
  SidrRep rep;
  if (auto copied = copy_private(private_data, 0, rep.private_data); !copied) return copied;
  rep.status = static_cast<std::uint8_t>(SidrStatus::kValid);
  rep.qpn = qpn;
  rep.qkey = kUdpQkey;
  answer_request(id, connection, rep, State::kEstablished, now);
  return {};
}

Result<> Manager::refuse_qp(Handle id, Connection& connection, std::span<const std::byte> private_data,
                            Instant now) {
  SidrRep rep;
  if (auto copied = copy_private(private_data, 0, rep.private_data); !copied) return copied;
  rep.status = static_cast<std::uint8_t>(SidrStatus::kRejected);
  answer_request(id, connection, rep, State::kClosed, now);
  return {};
}

// The answer may be lost: it answers duplicates as long as the peer may repeat its request. SIDR_REQ does not
// say how long that is, so the peer is taken to have this end's patience, as Linux has. Duplicates do not
// prolong it: a peer that never stops would keep the orphan.
void Manager::answer_request(Handle id, Connection& connection, SidrRep rep, State next, Instant now) {
  rep.request_id = connection.remote_id;
  rep.service_id = service_of_port(PortSpace::kUdp, connection.local.port);
  connection.repeated = build({connection.transaction, rep});
  connection.has_repeated = true;
  repeat(connection);
  connection.state = next;
  set_deadline(id, connection, now + (options_.retries + 1) * connection.response_time);
}

// Of an active id: its peer has answered, or never will.
void Manager::end_request(Handle id, Connection& connection, State next) {
  connection.state = next;
  connection.has_repeated = false;
  forget_wire(id, connection);
  set_deadline(id, connection, Instant::never());
}

void Manager::end_datagram_id(Handle id, Connection& connection, Instant now) {
  if (connection.state == State::kReqReceived) (void)refuse_qp(id, connection, {}, now);
  if (connection.state == State::kReqSent) end_request(id, connection, State::kClosed);
}

void Manager::on(const Origin& origin, const SidrReq& req) {
  const PeerKey peer_id{origin.from, req.request_id};
  if (const auto known = by_peer_request_.find(peer_id); known != by_peer_request_.end())
    return repeat(connections_.at(known->second));

  const auto refuse = [&](SidrStatus status) {
    answer(origin, SidrRep{.request_id = req.request_id,
                           .status = static_cast<std::uint8_t>(status),
                           .service_id = req.service_id});
  };
  const auto port = port_of_service(PortSpace::kUdp, req.service_id);
  const auto header = parse_ip_header(req.private_data);
  if (!port || !header || !is_own(header->destination)) return refuse(SidrStatus::kUnsupported);
  // A sender that lies about its address would have the program's datagrams sent to somebody else.
  if (header->source != origin.from) return refuse(SidrStatus::kRejected);
  const auto listener = listener_of(PortSpace::kUdp, {header->destination, *port});
  if (!listener) return refuse(SidrStatus::kUnsupported);
  auto made = requested(*listener, origin, *header);
  if (!made) return refuse(SidrStatus::kNoQp);
  made->remote_id = req.request_id;
  made->response_time = ib_time(options_.timeout);
  const Handle id = add(*std::move(made));
  listener->connection->pending.insert(id);
  by_peer_request_[peer_id] = id;
  raise(EventType::kConnectRequest, id, connections_.at(id), 0,
        std::span(req.private_data).subspan(kIpHeaderBytes));
}

void Manager::on(const Origin& origin, const SidrRep& rep) {
  const auto found = by_local_id(PortSpace::kUdp, origin.from, rep.request_id);
  if (!found || found->connection->state != State::kReqSent) return;
  Connection& connection = *found->connection;
  if (rep.status != static_cast<std::uint8_t>(SidrStatus::kValid)) {
    end_request(found->id, connection, State::kClosed);
    return raise(EventType::kUnreachable, found->id, connection, rep.status, rep.private_data);
  }
  if (rep.qkey != kUdpQkey) {
    end_request(found->id, connection, State::kClosed);
    return raise(EventType::kUnreachable, found->id, connection, -EINVAL);
  }
  connection.peer.qpn = rep.qpn;
  connection.peer.qkey = rep.qkey;
  end_request(found->id, connection, State::kEstablished);
  raise(EventType::kEstablished, found->id, connection, 0, rep.private_data);
}

}  // namespace pvrdma::cm
