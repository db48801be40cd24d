// QP attributes and the rules of MODIFY_QP: transitions, attributes and values. Pure functions. Reference
// 3.4, 7.3; IBTA vol. 1, 11.2.5.2 (as encoded in the Linux core). Thread: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "abi/commands.h"
#include "base/time.h"
#include "verbs/ids.h"
#include "verbs/limits.h"
#include "verbs/status.h"

namespace pvrdma::verbs {

// Validated: every field is in its range.
struct QpAttributes {
  abi::QpState state = abi::QpState::kReset;
  abi::Mtu path_mtu = abi::Mtu::k1024;
  std::uint32_t qkey = 0;
  Psn rq_psn;
  Psn sq_psn;
  Qpn dest_qpn;
  std::uint32_t access_flags = 0;
  std::uint16_t pkey_index = 0;
  bool sqd_async_notify = false;
  std::uint8_t max_rd_atomic = 0;       // as requester
  std::uint8_t max_dest_rd_atomic = 0;  // as responder
  std::uint8_t min_rnr_timer = 0;       // IB encoding 0…31
  std::uint8_t port_num = 1;
  std::uint8_t timeout = 0;    // see ack_timeout(); 0 = never
  std::uint8_t retry_cnt = 0;  // 0…7
  std::uint8_t rnr_retry = 0;  // 0…7, 7 = without end
  Gid dgid;
  std::uint32_t sgid_index = 0;
  abi::AhAttr ah{};  // as the guest gave it, for QUERY_QP only
};

struct ModifyQp {
  std::uint32_t mask = 0;
  abi::QpAttr attr{};  // only the attributes in `mask` are meaningful
};

// An attribute whose value MODIFY_QP refuses, and the values that it accepts.
struct OutOfRange {
  std::string_view attribute;  // the Linux core's name for it; static
  std::uint32_t value = 0;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  friend bool operator==(const OutOfRange&, const OutOfRange&) = default;
};
// The first such attribute among those in the request.
std::optional<OutOfRange> first_out_of_range(const ModifyQp& request, const Limits& limits);

// The attributes after `request` is applied to `current`. kInvalid: the type has no such transition, a
// required attribute is missing, an attribute may not change here, or a value is out of range. The caller
// checks sgid_index, because it knows the GID table.
Outcome<QpAttributes> apply_modify(abi::QpType type, const QpAttributes& current, const ModifyQp& request,
                                   const Limits& limits);

// The guest's view for QUERY_QP. The caller provides `cap`.
abi::QpAttr to_abi(const QpAttributes& attributes, const abi::QpCap& cap);

// Whether an RC QP in that state accepts requests (may_respond), and whether it sends requests and accepts
// their answers (may_request).
constexpr bool may_respond(abi::QpState state) {
  return state == abi::QpState::kRtr || state == abi::QpState::kRts || state == abi::QpState::kSqd;
}
constexpr bool may_request(abi::QpState state) {
  return state == abi::QpState::kRts || state == abi::QpState::kSqd;
}

// The number of packets that a message takes, at least one. A read takes as many as its answer.
constexpr std::uint32_t packet_count(std::uint32_t bytes, abi::Mtu mtu) {
  const std::uint32_t whole = bytes >> abi::mtu_shift(mtu);
  const bool rest = (bytes & (abi::mtu_bytes(mtu) - 1)) != 0;
  return whole + (rest || bytes == 0 ? 1 : 0);
}

// How long to wait for an answer: 4 * 4.096 us * 2^timeout. InfiniBand lets an adapter wait between one and
// four times the attribute's value (IBTA vol. 1, 9.7.6.1.3); ADR 11 explains why this adapter uses four.
Duration ack_timeout(std::uint8_t timeout);

// IB encoding 0…31 to time: 0 is 655.36 ms, 1 is 10 us, 31 is 491.52 ms.
Duration rnr_delay(std::uint8_t encoded);

}  // namespace pvrdma::verbs
