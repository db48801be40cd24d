// Makes records for tests. Thread: the test's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "capture/record.h"
#include "guestmem/host_span.h"

namespace pvrdma::capture {

inline verbs::Gid gid(std::uint8_t host) {
  return verbs::Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, host}};
}
inline const verbs::Endpoint kHere{gid(1), verbs::Qpn(17)};
inline const verbs::Endpoint kThere{gid(2), verbs::Qpn(0x10023)};

inline Record request(verbs::RequestOp op, std::uint32_t bytes) {
  Record record{.kind = Kind::kRequest, .path = transport::PathKind::kLocal, .mtu = abi::Mtu::k1024};
  record.request.from = kHere;
  record.request.to = kThere;
  record.request.psn = verbs::Psn(0xff'ffff);  // the next PSN is 0
  record.request.op = op;
  record.request.message_bytes = bytes;
  record.request.bytes = bytes;
  record.request.remote_addr = 0x7000;
  record.request.rkey = 0x77;
  return record;
}

inline Record response(verbs::RequestOp op, verbs::Syndrome syndrome, std::uint32_t bytes = 0) {
  Record record{.kind = Kind::kResponse,
                .direction = verbs::Direction::kInbound,
                .path = transport::PathKind::kTcp,
                .mtu = abi::Mtu::k1024};
  record.response.from = kThere;
  record.response.to = kHere;
  record.response.number = verbs::MessageNumber(9);
  record.response.syndrome = syndrome;
  record.response.op = op;
  record.response.bytes = bytes;
  record.answered = {verbs::Psn(5), bytes};
  return record;
}

inline Record datagram(std::uint32_t bytes) {
  Record record{.kind = Kind::kDatagram, .path = transport::PathKind::kTcp, .mtu = abi::Mtu::k4096};
  record.datagram.from = kHere;
  record.datagram.to = {gid(2), verbs::kGsiQpn};
  record.datagram.qkey = 0x8001'0000;
  record.datagram.bytes = bytes;
  record.datagram.roce = RoceVersion::kV2;
  return record;
}

inline std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256);
  return bytes;
}

inline guestmem::SpanList spans_of(std::vector<std::byte>& bytes) {
  guestmem::SpanList list;
  static_cast<void>(list.append(bytes.data(), bytes.size()));
  return list;
}

}  // namespace pvrdma::capture
