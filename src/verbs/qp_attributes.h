// QP attributes and the rules of MODIFY_QP: which transition, which attributes, which values. Pure functions.
// Reference 3.4, 7.3; IBTA vol. 1, 11.2.5.2 (as the Linux core encodes it). Thread: values.
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
  std::uint8_t rnr_retry = 0;  // 0…7, 7 = for ever
  Gid dgid;
  std::uint32_t sgid_index = 0;
  abi::AhAttr ah{};  // as the guest gave it, for QUERY_QP only
};

struct ModifyQp {
  std::uint32_t mask = 0;
  abi::QpAttr attr{};  // only what `mask` names means anything
};

// An attribute whose value MODIFY_QP does not take, and those that it takes.
struct OutOfRange {
  std::string_view attribute;  // as the Linux core calls it; static
  std::uint32_t value = 0;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  friend bool operator==(const OutOfRange&, const OutOfRange&) = default;
};
// The first of those that the request names.
std::optional<OutOfRange> first_out_of_range(const ModifyQp& request, const Limits& limits);

// What attributes become when `request` is applied to `current`.
// kInvalid: no such transition for this type, a required attribute missing, an attribute that may not change
// here, or a value out of range (sgid_index is checked by the caller, who knows the GID table).
Outcome<QpAttributes> apply_modify(abi::QpType type, const QpAttributes& current, const ModifyQp& request,
                                   const Limits& limits);

// The guest's view for QUERY_QP. `cap` is the caller's.
abi::QpAttr to_abi(const QpAttributes& attributes, const abi::QpCap& cap);

// Whether an RC QP in that state takes requests, and whether it sends any and takes their answers.
constexpr bool may_respond(abi::QpState state) {
  return state == abi::QpState::kRtr || state == abi::QpState::kRts || state == abi::QpState::kSqd;
}
constexpr bool may_request(abi::QpState state) {
  return state == abi::QpState::kRts || state == abi::QpState::kSqd;
}

// Packets that a message takes: at least one. A read takes those of its answer.
constexpr std::uint32_t packet_count(std::uint32_t bytes, abi::Mtu mtu) {
  const std::uint32_t whole = bytes >> abi::mtu_shift(mtu);
  const bool rest = (bytes & (abi::mtu_bytes(mtu) - 1)) != 0;
  return whole + (rest || bytes == 0 ? 1 : 0);
}

// How long an answer may take: 4 * 4.096 us * 2^timeout. InfiniBand lets an adapter wait between once and
// four times what the attribute says (IBTA vol. 1, 9.7.6.1.3); ADR 11 has why this one is patient.
Duration ack_timeout(std::uint8_t timeout);

// IB encoding 0…31 to time: 0 is 655.36 ms, 1 is 10 us, 31 is 491.52 ms.
Duration rnr_delay(std::uint8_t encoded);

}  // namespace pvrdma::verbs
