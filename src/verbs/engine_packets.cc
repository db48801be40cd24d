// The Engine's functions for paths that carry packets.
#include "verbs/engine_impl.h"

namespace pvrdma::verbs {

// Returns null if there is no RC QP with that number, or if its connection has other ends.
QueuePair* Engine::Impl::by_ends(const Endpoint& local, const Endpoint& remote) const {
  QueuePair* qp = by_qpn(local.qpn);
  const bool fits = qp != nullptr && qp->identity.type == abi::QpType::kRc && qp->is_between(remote, local);
  return fits ? qp : nullptr;
}

std::optional<PacketsReceived> Engine::packets_received(const Connection& connection) const {
  const QueuePair* qp = impl_->by_ends(connection.local, connection.remote);
  if (qp == nullptr || !may_respond(qp->state())) return std::nullopt;
  const ReceiveSide& receive = qp->receive;
  const MessageNumber first(qp->attributes.rq_psn.value);
  return PacketsReceived{.next = qp->expected_psn(),
                         .message_psn = receive.psn,
                         .number = receive.expected,
                         .under_way = receive.under_way,
                         .msn = (receive.expected.value - first.value) & MessageNumber::kMask,
                         .mtu = qp->attributes.path_mtu};
}

std::optional<PacketsSent> Engine::packets_sent(const Connection& connection) const {
  QueuePair* qp = impl_->by_ends(connection.local, connection.remote);
  if (qp == nullptr || !may_request(qp->state())) return std::nullopt;
  const SendWork* next = qp->next_work();
  return PacketsSent{.oldest = qp->oldest_psn(),
                     .next = qp->next_psn(),
                     .next_offset = next != nullptr ? next->sent : 0,
                     .mtu = qp->attributes.path_mtu,
                     .max_rd_atomic = qp->attributes.max_rd_atomic};
}

std::optional<Psn> Engine::packets_begun(const Connection& connection) const {
  QueuePair* qp = impl_->by_ends(connection.local, connection.remote);
  if (qp == nullptr || !may_request(qp->state())) return std::nullopt;
  SendWindow& window = qp->send.window;
  for (std::uint32_t at = window.tail(); at != window.head(); --at) {
    const SendWork& work = window.at(at - 1);
    if (!work.is_local() && work.started)
      return work.psn + packet_count(work.length, qp->attributes.path_mtu);
  }
  return qp->oldest_psn();
}

std::optional<SentPacket> Engine::sent_packet(const Connection& connection, Psn psn) const {
  QueuePair* qp = impl_->by_ends(connection.local, connection.remote);
  if (qp == nullptr || !may_request(qp->state())) return std::nullopt;
  SendWindow& window = qp->send.window;
  const abi::Mtu mtu = qp->attributes.path_mtu;
  bool behind_unanswered = false;
  for (std::uint32_t at = window.head(); at != window.tail(); ++at) {
    const SendWork& work = window.at(at);
    if (work.is_local() || !work.started) continue;
    const bool is_open = work.state == SendWork::State::kQueued || work.state == SendWork::State::kSent;
    const std::int32_t packet = distance(psn, work.psn);
    if (packet >= 0 && static_cast<std::uint32_t>(packet) < packet_count(work.length, mtu)) {
      return SentPacket{.op = request_op(work.opcode),
                        .number = work.number,
                        .message_psn = work.psn,
                        .message_bytes = work.length,
                        .offset = static_cast<std::uint32_t>(packet) << abi::mtu_shift(mtu),
                        .confirmed = work.confirmed,
                        .mtu = mtu,
                        .is_open = is_open,
                        .behind_unanswered = behind_unanswered};
    }
    behind_unanswered = behind_unanswered || (is_open && work.is_read_or_atomic());
  }
  return std::nullopt;
}

bool Engine::accept_read(const Request& request, Instant now) {
  QueuePair* qp = impl_->by_ends(request.to, request.from);
  return qp != nullptr && impl_->responder.accept_read(*qp, request, now);
}

bool Engine::open_read(const Request& request, ReadAnswer answer, guestmem::SpanList& source) {
  QueuePair* qp = impl_->by_ends(request.to, request.from);
  return qp != nullptr && impl_->responder.open_read(*qp, request, answer, source);
}

void Engine::refuse_request(const Request& request, std::string_view why, Instant now) {
  QueuePair* qp = impl_->by_ends(request.to, request.from);
  if (qp != nullptr) impl_->responder.refuse(*qp, request, why, now);
}

std::optional<std::uint64_t> Engine::atomic_result(const Connection& connection, Psn psn) const {
  const QueuePair* qp = impl_->by_ends(connection.local, connection.remote);
  return qp != nullptr ? qp->receive.replays.find(psn) : std::nullopt;
}

void Engine::repeat(const Connection& connection) {
  QueuePair* qp = impl_->by_ends(connection.local, connection.remote);
  if (qp != nullptr) impl_->requester.repeat(*qp);
}

void Engine::on_path_ready(const Connection& connection) {
  QueuePair* qp = impl_->by_ends(connection.local, connection.remote);
  if (qp != nullptr) impl_->scheduler.wake(*qp);
}

}  // namespace pvrdma::verbs
