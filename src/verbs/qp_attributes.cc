#include "verbs/qp_attributes.h"

#include <array>
#include <span>

#include "base/ib_time.h"

namespace pvrdma::verbs {
namespace {

using abi::QpState;
using abi::QpType;

constexpr std::uint32_t kNone = 0;
constexpr std::uint32_t kInitConnected = abi::kQpAttrPkeyIndex | abi::kQpAttrPort | abi::kQpAttrAccessFlags;
constexpr std::uint32_t kInitUd = abi::kQpAttrPkeyIndex | abi::kQpAttrPort | abi::kQpAttrQkey;
constexpr std::uint32_t kInitGsi = abi::kQpAttrPkeyIndex | abi::kQpAttrQkey;
constexpr std::uint32_t kQkeyAtWork = abi::kQpAttrCurState | abi::kQpAttrQkey;
constexpr std::uint32_t kRtrRequired = abi::kQpAttrAv | abi::kQpAttrPathMtu | abi::kQpAttrDestQpn |
                                       abi::kQpAttrRqPsn | abi::kQpAttrMaxDestRdAtomic |
                                       abi::kQpAttrMinRnrTimer;
constexpr std::uint32_t kRtsRequired = abi::kQpAttrTimeout | abi::kQpAttrRetryCnt | abi::kQpAttrRnrRetry |
                                       abi::kQpAttrSqPsn | abi::kQpAttrMaxQpRdAtomic;
// The alternate path and its migration state are accepted and ignored: a guest without a second path sets
// neither.
constexpr std::uint32_t kConnectedAtWork = abi::kQpAttrCurState | abi::kQpAttrAltPath |
                                           abi::kQpAttrAccessFlags | abi::kQpAttrMinRnrTimer |
                                           abi::kQpAttrPathMigState;
constexpr std::uint32_t kConnectedDrained =
    abi::kQpAttrPort | abi::kQpAttrAv | abi::kQpAttrTimeout | abi::kQpAttrRetryCnt | abi::kQpAttrRnrRetry |
    abi::kQpAttrMaxQpRdAtomic | abi::kQpAttrMaxDestRdAtomic | abi::kQpAttrAltPath | abi::kQpAttrAccessFlags |
    abi::kQpAttrPkeyIndex | abi::kQpAttrMinRnrTimer | abi::kQpAttrPathMigState;

struct Transition {
  QpState from;
  QpState to;
  std::uint32_t required;
  std::uint32_t optional;  // besides the state itself
};

// IBTA vol. 1, 11.2.5.2. is_allowed() handles the transitions from any state to RESET and to ERR.
constexpr Transition kConnected[] = {
    {QpState::kReset, QpState::kInit, kInitConnected, kNone},
    {QpState::kInit, QpState::kInit, kNone, kInitConnected},
    {QpState::kInit, QpState::kRtr, kRtrRequired,
     abi::kQpAttrAltPath | abi::kQpAttrAccessFlags | abi::kQpAttrPkeyIndex},
    {QpState::kRtr, QpState::kRts, kRtsRequired, kConnectedAtWork},
    {QpState::kRts, QpState::kRts, kNone, kConnectedAtWork},
    {QpState::kRts, QpState::kSqd, kNone, abi::kQpAttrEnSqdAsyncNotify},
    {QpState::kSqd, QpState::kSqd, kNone, kConnectedDrained},
    {QpState::kSqd, QpState::kRts, kNone, kConnectedAtWork},
};

constexpr Transition kDatagram[] = {
    {QpState::kInit, QpState::kRtr, kNone, kInitGsi},
    {QpState::kRtr, QpState::kRts, abi::kQpAttrSqPsn, kQkeyAtWork},
    {QpState::kRts, QpState::kRts, kNone, kQkeyAtWork},
    {QpState::kRts, QpState::kSqd, kNone, abi::kQpAttrEnSqdAsyncNotify},
    {QpState::kSqd, QpState::kSqd, kNone, kInitGsi},
    {QpState::kSqd, QpState::kRts, kNone, kQkeyAtWork},
    {QpState::kSqe, QpState::kRts, kNone, kQkeyAtWork},
};

// A UD QP names its port in the transition to INIT; the GSI QP has a fixed port.
constexpr Transition kUdInit[] = {
    {QpState::kReset, QpState::kInit, kInitUd, kNone},
    {QpState::kInit, QpState::kInit, kNone, kInitUd},
};
constexpr Transition kGsiInit[] = {
    {QpState::kReset, QpState::kInit, kInitGsi, kNone},
    {QpState::kInit, QpState::kInit, kNone, kInitGsi},
};

struct Rows {
  std::span<const Transition> init;
  std::span<const Transition> work;
};

Rows rows_of(QpType type) {
  switch (type) {
    case QpType::kRc:
      return {kConnected, {}};
    case QpType::kUd:
      return {kUdInit, kDatagram};
    case QpType::kGsi:
      return {kGsiInit, kDatagram};
    case QpType::kSmi:
    case QpType::kUc:
      return {};
  }
  return {};
}

bool is_allowed(QpType type, QpState from, QpState to, std::uint32_t mask) {
  const Rows rows = rows_of(type);
  if (rows.init.empty()) return false;
  const std::uint32_t named = mask & ~abi::kQpAttrState;
  if (to == QpState::kReset || to == QpState::kErr) return named == 0;
  for (std::span<const Transition> part : {rows.init, rows.work}) {
    for (const Transition& row : part) {
      if (row.from != from || row.to != to) continue;
      return (named & row.required) == row.required && (named & ~(row.required | row.optional)) == 0;
    }
  }
  return false;
}

// Copies the attributes in `mask`; all of them are in range.
void assign(std::uint32_t mask, const abi::QpAttr& attr, QpAttributes& out) {
  const auto named = [mask](abi::QpAttrBit bit) { return (mask & bit) != 0; };
  if (named(abi::kQpAttrEnSqdAsyncNotify)) out.sqd_async_notify = attr.en_sqd_async_notify != 0;
  if (named(abi::kQpAttrAccessFlags)) out.access_flags = attr.qp_access_flags & abi::kAccessMask;
  if (named(abi::kQpAttrPkeyIndex)) out.pkey_index = attr.pkey_index;
  if (named(abi::kQpAttrPort)) out.port_num = attr.port_num;
  if (named(abi::kQpAttrQkey)) out.qkey = attr.qkey;
  if (named(abi::kQpAttrPathMtu)) out.path_mtu = static_cast<abi::Mtu>(attr.path_mtu);
  if (named(abi::kQpAttrTimeout)) out.timeout = attr.timeout;
  if (named(abi::kQpAttrRetryCnt)) out.retry_cnt = attr.retry_cnt;
  if (named(abi::kQpAttrRnrRetry)) out.rnr_retry = attr.rnr_retry;
  if (named(abi::kQpAttrRqPsn)) out.rq_psn = Psn(attr.rq_psn);
  if (named(abi::kQpAttrSqPsn)) out.sq_psn = Psn(attr.sq_psn);
  if (named(abi::kQpAttrMaxQpRdAtomic)) out.max_rd_atomic = attr.max_rd_atomic;
  if (named(abi::kQpAttrMaxDestRdAtomic)) out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if (named(abi::kQpAttrMinRnrTimer)) out.min_rnr_timer = attr.min_rnr_timer;
  if (named(abi::kQpAttrDestQpn)) out.dest_qpn = Qpn(attr.dest_qp_num);
  if (named(abi::kQpAttrAv)) {
    out.ah = attr.ah_attr;
    out.dgid.bytes = attr.ah_attr.grh.dgid.raw;
    out.sgid_index = attr.ah_attr.grh.sgid_index;
  }
}

// IBTA vol. 1, "encoding for RNR NAK timer field", from code 1 on, in units of 10 us.
constexpr std::array<std::uint16_t, 31> kRnrDelays{
    1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,  256,
    384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr std::uint32_t kRnrDelayOfZero = 65536;

}  // namespace

std::optional<OutOfRange> first_out_of_range(const ModifyQp& request, const Limits& limits) {
  const abi::QpAttr& attr = request.attr;
  const struct {
    abi::QpAttrBit bit;
    OutOfRange range;
  } ranges[] = {
      {abi::kQpAttrPkeyIndex, {"pkey_index", attr.pkey_index, 0, 0}},
      {abi::kQpAttrPort, {"port_num", attr.port_num, 1, 1}},
      {abi::kQpAttrPathMtu,
       {"path_mtu", attr.path_mtu, static_cast<std::uint32_t>(abi::Mtu::k256),
        static_cast<std::uint32_t>(abi::Mtu::k4096)}},
      {abi::kQpAttrDestQpn, {"dest_qp_num", attr.dest_qp_num, 0, kQpnMax}},
      {abi::kQpAttrTimeout, {"timeout", attr.timeout, 0, 31}},
      {abi::kQpAttrRetryCnt, {"retry_cnt", attr.retry_cnt, 0, 7}},
      {abi::kQpAttrRnrRetry, {"rnr_retry", attr.rnr_retry, 0, 7}},
      {abi::kQpAttrMinRnrTimer, {"min_rnr_timer", attr.min_rnr_timer, 0, 31}},
      {abi::kQpAttrMaxQpRdAtomic, {"max_rd_atomic", attr.max_rd_atomic, 0, limits.max_rd_atomic}},
      {abi::kQpAttrMaxDestRdAtomic, {"max_dest_rd_atomic", attr.max_dest_rd_atomic, 0, limits.max_rd_atomic}},
      // RoCE has no addresses without a GRH. The address's port is not checked: there is only one, and some
      // callers leave it 0.
      {abi::kQpAttrAv,
       {"ah_attr.ah_flags & GRH", static_cast<std::uint32_t>(attr.ah_attr.ah_flags & abi::kAhGrh),
        abi::kAhGrh, abi::kAhGrh}},
  };
  for (const auto& [bit, range] : ranges) {
    if ((request.mask & bit) != 0 && (range.value < range.least || range.value > range.most)) return range;
  }
  return std::nullopt;
}

Outcome<QpAttributes> apply_modify(abi::QpType type, const QpAttributes& current, const ModifyQp& request,
                                   const Limits& limits) {
  const bool moves = (request.mask & abi::kQpAttrState) != 0;
  const std::optional<QpState> target = moves ? abi::parse_qp_state(request.attr.qp_state) : current.state;
  if (!target || !is_allowed(type, current.state, *target, request.mask))
    return refuse(CommandError::kInvalid);
  if ((request.mask & abi::kQpAttrCurState) != 0 &&
      abi::parse_qp_state(request.attr.cur_qp_state) != current.state)
    return refuse(CommandError::kInvalid);
  if (first_out_of_range(request, limits)) return refuse(CommandError::kInvalid);

  if (*target == QpState::kReset) return QpAttributes{};
  QpAttributes next = current;
  if (current.state == QpState::kRts && *target == QpState::kSqd) next.sqd_async_notify = false;
  assign(request.mask, request.attr, next);
  next.state = *target;
  return next;
}

abi::QpAttr to_abi(const QpAttributes& attributes, const abi::QpCap& cap) {
  abi::QpAttr out{};
  out.qp_state = static_cast<std::uint32_t>(attributes.state);
  out.cur_qp_state = out.qp_state;
  out.path_mtu = static_cast<std::uint32_t>(attributes.path_mtu);
  out.path_mig_state = static_cast<std::uint32_t>(abi::PathMigState::kMigrated);
  out.qkey = attributes.qkey;
  out.rq_psn = attributes.rq_psn.value;
  out.sq_psn = attributes.sq_psn.value;
  out.dest_qp_num = attributes.dest_qpn.value;
  out.qp_access_flags = attributes.access_flags;
  out.pkey_index = attributes.pkey_index;
  out.en_sqd_async_notify = attributes.sqd_async_notify ? 1 : 0;
  out.max_rd_atomic = attributes.max_rd_atomic;
  out.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  out.min_rnr_timer = attributes.min_rnr_timer;
  out.port_num = attributes.port_num;
  out.timeout = attributes.timeout;
  out.retry_cnt = attributes.retry_cnt;
  out.rnr_retry = attributes.rnr_retry;
  out.cap = cap;
  out.ah_attr = attributes.ah;
  return out;
}

Duration ack_timeout(std::uint8_t timeout) {
  return 4 * ib_time(timeout);
}

Duration rnr_delay(std::uint8_t encoded) {
  const std::uint8_t code = encoded & 31;
  return std::chrono::microseconds(10) * (code == 0 ? kRnrDelayOfZero : kRnrDelays[code - 1u]);
}

}  // namespace pvrdma::verbs
