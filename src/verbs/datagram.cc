#include "verbs/datagram.h"

#include "verbs/grh.h"
#include "verbs/sge_list.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint32_t kDatagramsPerTurn = 256;
// How long a QP waits for room on the way of its last datagram. The next one may have another way.
constexpr Duration kWaitMax = std::chrono::milliseconds(100);
constexpr std::uint32_t kPrivilegedQkeyBit = 0x8000'0000;

bool may_receive(abi::QpState state) {
  switch (state) {
    case abi::QpState::kRtr:
    case abi::QpState::kRts:
    case abi::QpState::kSqd:
    case abi::QpState::kSqe:
      return true;
    case abi::QpState::kReset:
    case abi::QpState::kInit:
    case abi::QpState::kErr:
      return false;
  }
  return false;
}

}  // namespace

bool DatagramService::run(QueuePair& qp, Instant now) {
  SendWindow& window = qp.send.window;
  if (qp.state() == abi::QpState::kRts && qp.waiting_link.linked()) return false;
  for (std::uint32_t sent = 0; qp.state() == abi::QpState::kRts; ++sent) {
    if (sent == kDatagramsPerTurn || services_.share.spent()) return true;
    SendWork& work = window.staging();
    UdAddress address;
    switch (fetch_datagram_wqe(services_, qp, work, window.staging_sges(), address)) {
      case Fetched::kOne:
        break;
      case Fetched::kEmpty:
        return false;
      case Fetched::kBroken:
        completions_.ring_broken(qp, "its send queue has an invalid index, or a page of it is gone");
        return false;
    }
    services_.share.spend(1, work.length);
    const bool has_room = send(qp, work, {window.staging_sges(), work.sge_count}, address, now);
    // The GSI QP's datagrams do not wait: one busy host would hold up the connections to all others.
    if (!has_room && qp.identity.type == abi::QpType::kUd) {
      services_.scheduler.wait_for_path(qp);
      services_.scheduler.arm(qp, now + kWaitMax);
      return false;
    }
  }
  if (qp.state() == abi::QpState::kSqd && !qp.send.drained_reported) {
    qp.send.drained_reported = true;
    if (qp.attributes.sqd_async_notify) {
      services_.events.async_event(abi::EventType::kSqDrained, qp.identity.handle.value);
    }
  }
  return false;
}

bool DatagramService::send(QueuePair& qp, SendWork& work, std::span<const abi::Sge> sges,
                           const UdAddress& address, Instant now) {
  if (work.state == SendWork::State::kFailed) return fail_send(qp, work, work.status);
  if (work.length > abi::mtu_bytes(services_.limits.mtu))
    return fail_send(qp, work, abi::CompletionStatus::kLocalLength);
  const GidTable::Entry* source = services_.gids.at(address.av.gid_index);
  if (address.av.gid_index >= services_.gids.entries().size() || address.av.port_num() != 1) {
    return fail_send(qp, work, abi::CompletionStatus::kLocalQpOperation);
  }
  guestmem::SpanList payload;
  if (resolve_sges(services_.mrs, qp.identity.pd, sges, 0, work.length, AccessNeed{}, payload) !=
      KeyFault::kNone) {
    return fail_send(qp, work, abi::CompletionStatus::kLocalProtection);
  }

  Datagram datagram;
  // The GID may have been unbound since the guest made the address handle: its kernel does that when an
  // address is removed. The datagram is lost then, as on any path; the QP goes on. No port holds the zero
  // GID, so the port drops and counts it.
  if (source != nullptr) {
    datagram.from.gid = source->gid;
    datagram.roce = source->roce;
  }
  datagram.from.qpn = qp.identity.qpn;
  datagram.to = {.gid = Gid{address.av.dgid.raw}, .qpn = Qpn(address.remote_qpn & kQpnMax)};
  // If the work request names a privileged Q_Key, the QP's own Q_Key is sent instead (reference 7.3).
  datagram.qkey = (address.remote_qkey & kPrivilegedQkeyBit) != 0 ? qp.attributes.qkey : address.remote_qkey;
  datagram.extra = work.opcode == abi::Opcode::kSendWithImm ? Extra::kImmediate : Extra::kNone;
  datagram.solicited = (work.send_flags & abi::kSendSolicited) != 0;
  datagram.extra_value = work.extra_value;
  datagram.bytes = work.length;
  datagram.flow_label = address.av.flow_label();
  datagram.traffic_class = address.av.traffic_class();
  datagram.hop_limit = address.av.hop_limit;
  datagram.next_hop = address.av.dmac;

  ++services_.counters.tx_messages;
  services_.counters.tx_bytes += work.length;
  ++qp.tx_messages;
  qp.tx_bytes += work.length;
  if (MessageObserver* observer = services_.wire.observer(); observer != nullptr) [[unlikely]] {
    observer->on_datagram(Direction::kOutbound, datagram, payload, now);
  }
  // A user process must not send to management QPs (reference 9.2).
  bool has_room = true;
  if (datagram.to.qpn == kGsiQpn && !qp.is_kernel()) {
    ++services_.counters.ud_dropped_qkey;
  } else {
    has_room = services_.wire.send_datagram(datagram, payload, now);
  }
  completions_.complete_send(qp, work, abi::CompletionStatus::kSuccess);
  return has_room;
}

// An error of the send queue stops only that queue; the QP goes on receiving (IBTA vol. 1, 10.3.1).
bool DatagramService::fail_send(QueuePair& qp, const SendWork& work, abi::CompletionStatus status) {
  ++services_.counters.local_errors;
  if (!completions_.complete_send(qp, work, status)) return true;
  qp.attributes.state = abi::QpState::kSqe;
  services_.events.qp_failed(qp.identity.qpn, "a datagram could not be sent: its send queue stops");
  services_.scheduler.make_ready(qp);
  return true;
}

void DatagramService::on_datagram(QueuePair& qp, const Datagram& datagram,
                                  const guestmem::SpanList& payload) {
  if (!may_receive(qp.state()) || payload.bytes() != datagram.bytes ||
      datagram.bytes > abi::mtu_bytes(services_.limits.mtu)) {
    ++services_.counters.dropped_unknown_qp;
    return;
  }
  if (datagram.qkey != qp.attributes.qkey) {
    ++services_.counters.ud_dropped_qkey;
    return;
  }
  ReceiveSide& receive = qp.receive;
  if (!receive.holds_receive) {
    const Taken taken = receive.take();
    if (taken == Taken::kBroken) {
      completions_.ring_broken(qp, "its receive queue has an invalid index, or a page of it is gone");
      return;
    }
    if (taken == Taken::kEmpty) {
      ++services_.counters.ud_dropped_no_receive;
      return;
    }
    receive.holds_receive = true;
  }

  const std::uint32_t bytes = abi::kGrhBytes + datagram.bytes;
  if (!receive.receive.bad && receive.receive.total_bytes < bytes) {
    ++services_.counters.ud_dropped_length;  // the receive stays posted for a datagram that fits
    return;
  }
  receive.holds_receive = false;
  guestmem::SpanList target;
  const PdHandle pd = receive.srq != nullptr ? receive.srq->pd() : qp.identity.pd;
  const bool usable =
      !receive.receive.bad &&
      resolve_sges(services_.mrs, pd, {receive.receive.sges.data(), receive.receive.sge_count}, 0, bytes,
                   {.flag = abi::kAccessLocalWrite}, target) == KeyFault::kNone;
  if (!usable) {
    ++services_.counters.local_errors;
    completions_.complete_receive(qp,
                                  {.wr_id = receive.receive.wr_id,
                                   .status = receive.receive.bad ? abi::CompletionStatus::kLocalQpOperation
                                                                 : abi::CompletionStatus::kLocalProtection});
    completions_.fail_qp(qp, "a receive has too many SGEs or names memory that it may not use");
    return;
  }

  Grh grh = make_grh(datagram);
  guestmem::SpanList source;
  static_cast<void>(source.append(grh.data(), grh.size()));
  for (const guestmem::HostSpan& piece : payload) static_cast<void>(source.append(piece.data, piece.size));
  guestmem::copy(target, source, bytes);

  ++services_.counters.rx_messages;
  services_.counters.rx_bytes += datagram.bytes;
  ++qp.rx_messages;
  qp.rx_bytes += datagram.bytes;
  completions_.complete_receive(qp,
                                {.wr_id = receive.receive.wr_id,
                                 .status = abi::CompletionStatus::kSuccess,
                                 .extra = datagram.extra,
                                 .solicited = datagram.solicited,
                                 .extra_value = datagram.extra_value,
                                 .byte_len = bytes,
                                 .src_qpn = datagram.from.qpn.value,
                                 .has_grh = true,
                                 .service_level = qp.is_kernel() ? std::uint8_t{0} : packet_type(datagram),
                                 .network_type = static_cast<std::uint8_t>(network_type(datagram))});
}

}  // namespace pvrdma::verbs
