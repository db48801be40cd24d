// The state changes of a QueuePair, with the attribute masks that Linux sends (docs/device.md 3.4).
#include "driver/queue_pair.h"

namespace pvrdma::driver {
namespace {

constexpr std::uint8_t kPort = 1;

abi::QpAttr in_state(abi::QpState state) {
  abi::QpAttr attributes{};
  attributes.qp_state = static_cast<std::uint32_t>(state);
  return attributes;
}

abi::AhAttr ah_attr_of(const Route& route) {
  abi::AhAttr ah{};
  ah.grh.dgid = route.dgid;
  ah.grh.flow_label = route.flow_label;
  ah.grh.sgid_index = route.sgid_index;
  ah.grh.hop_limit = route.hop_limit;
  ah.grh.traffic_class = route.traffic_class;
  ah.ah_flags = abi::kAhGrh;
  ah.port_num = kPort;
  ah.dmac = route.dmac;
  return ah;
}

}  // namespace

Result<> QueuePair::to_init(const InitAttributes& attributes) {
  abi::QpAttr attr = in_state(abi::QpState::kInit);
  attr.port_num = kPort;
  attr.qp_access_flags = attributes.access;
  attr.qkey = attributes.qkey;
  std::uint32_t mask = abi::kQpAttrState | abi::kQpAttrPkeyIndex;
  switch (type_) {
    case abi::QpType::kGsi:
      mask |= abi::kQpAttrQkey;
      break;
    case abi::QpType::kUd:
      mask |= abi::kQpAttrQkey | abi::kQpAttrPort;
      break;
    default:
      mask |= abi::kQpAttrAccessFlags | abi::kQpAttrPort;
      break;
  }
  return modify(mask, attr);
}

Result<> QueuePair::to_rtr(const RtrAttributes& attributes) {
  abi::QpAttr attr = in_state(abi::QpState::kRtr);
  attr.dest_qp_num = attributes.dest_qpn;
  attr.ah_attr = ah_attr_of(attributes.route);
  attr.rq_psn = attributes.rq_psn;
  attr.path_mtu = static_cast<std::uint32_t>(attributes.path_mtu);
  attr.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  attr.min_rnr_timer = attributes.min_rnr_timer;
  return modify(abi::kQpAttrState | abi::kQpAttrAv | abi::kQpAttrPathMtu | abi::kQpAttrRqPsn |
                    abi::kQpAttrDestQpn | abi::kQpAttrMaxDestRdAtomic | abi::kQpAttrMinRnrTimer,
                attr);
}

Result<> QueuePair::to_rtr() {
  return modify(abi::kQpAttrState, in_state(abi::QpState::kRtr));
}

Result<> QueuePair::to_rts(const RtsAttributes& attributes) {
  abi::QpAttr attr = in_state(abi::QpState::kRts);
  attr.sq_psn = attributes.sq_psn;
  attr.timeout = attributes.timeout;
  attr.retry_cnt = attributes.retry_cnt;
  attr.rnr_retry = attributes.rnr_retry;
  attr.max_rd_atomic = attributes.max_rd_atomic;
  return modify(abi::kQpAttrState | abi::kQpAttrSqPsn | abi::kQpAttrTimeout | abi::kQpAttrRetryCnt |
                    abi::kQpAttrRnrRetry | abi::kQpAttrMaxQpRdAtomic,
                attr);
}

Result<> QueuePair::to_rts(std::uint32_t sq_psn) {
  abi::QpAttr attr = in_state(abi::QpState::kRts);
  attr.sq_psn = sq_psn;
  return modify(abi::kQpAttrState | abi::kQpAttrSqPsn, attr);
}

Result<> QueuePair::to_sqd() {
  abi::QpAttr attr = in_state(abi::QpState::kSqd);
  attr.en_sqd_async_notify = 1;
  return modify(abi::kQpAttrState | abi::kQpAttrEnSqdAsyncNotify, attr);
}

Result<> QueuePair::sqd_to_rts() {
  return modify(abi::kQpAttrState, in_state(abi::QpState::kRts));
}

Result<> QueuePair::to_error() {
  return modify(abi::kQpAttrState, in_state(abi::QpState::kErr));
}

Result<> QueuePair::to_reset() {
  return modify(abi::kQpAttrState, in_state(abi::QpState::kReset));
}

}  // namespace pvrdma::driver
