// Attributes of ports, QPs, SRQs and address handles as commands carry them (docs/device.md section 3.4).
//
// Numbers that come from the guest stay raw integers here. Only the parse_ functions turn them into
// enumerations. Thread: plain data and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "abi/endian.h"

namespace pvrdma::abi {

// --- Enumerations in InfiniBand numbering ---

enum class QpState : std::uint32_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqd = 4,
  kSqe = 5,
  kErr = 6
};

constexpr std::optional<QpState> parse_qp_state(std::uint32_t raw) {
  if (raw > static_cast<std::uint32_t>(QpState::kErr)) return std::nullopt;
  return static_cast<QpState>(raw);
}

// The raw-packet and XRC types (5 and up) exist in InfiniBand's numbering, but the device does not support
// them: they do not parse.
enum class QpType : std::uint8_t { kSmi = 0, kGsi = 1, kRc = 2, kUc = 3, kUd = 4 };

constexpr std::optional<QpType> parse_qp_type(std::uint32_t raw) {
  if (raw > static_cast<std::uint32_t>(QpType::kUd)) return std::nullopt;
  return static_cast<QpType>(raw);
}

enum class Mtu : std::uint32_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

constexpr std::optional<Mtu> parse_mtu(std::uint32_t raw) {
  if (raw < static_cast<std::uint32_t>(Mtu::k256) || raw > static_cast<std::uint32_t>(Mtu::k4096))
    return std::nullopt;
  return static_cast<Mtu>(raw);
}

// The MTU is 2 to the power of this, in bytes.
constexpr std::uint32_t mtu_shift(Mtu mtu) {
  return 7 + static_cast<std::uint32_t>(mtu);
}
constexpr std::uint32_t mtu_bytes(Mtu mtu) {
  return 1u << mtu_shift(mtu);
}

enum class PortState : std::uint32_t { kDown = 1, kInit = 2, kArmed = 3, kActive = 4, kActiveDefer = 5 };
enum class PhysState : std::uint8_t { kDisabled = 3, kLinkUp = 5 };
enum class LinkWidth : std::uint8_t { k1x = 1, k4x = 2, k8x = 4, k12x = 8 };
enum class LinkSpeed : std::uint8_t { k10Gbps = 4, k14Gbps = 16, k25Gbps = 32 };  // per lane

enum class PathMigState : std::uint32_t { kMigrated = 0, kRearm = 1, kArmed = 2 };

// --- Bits ---

// Access rights of MRs and QPs. Guests set bits above kAccessMask ("relaxed ordering"): mask them off.
enum AccessFlag : std::uint32_t {
  kAccessLocalWrite = 1u << 0,
  kAccessRemoteWrite = 1u << 1,
  kAccessRemoteRead = 1u << 2,
  kAccessRemoteAtomic = 1u << 3,
  kAccessMwBind = 1u << 4,
  kAccessZeroBased = 1u << 5,
  kAccessOnDemand = 1u << 6,
};
inline constexpr std::uint32_t kAccessMask = 0x7f;

// attr_mask of MODIFY_QP: which fields of QpAttr are valid.
enum QpAttrBit : std::uint32_t {
  kQpAttrState = 1u << 0,
  kQpAttrCurState = 1u << 1,
  kQpAttrEnSqdAsyncNotify = 1u << 2,
  kQpAttrAccessFlags = 1u << 3,
  kQpAttrPkeyIndex = 1u << 4,
  kQpAttrPort = 1u << 5,
  kQpAttrQkey = 1u << 6,
  kQpAttrAv = 1u << 7,
  kQpAttrPathMtu = 1u << 8,
  kQpAttrTimeout = 1u << 9,
  kQpAttrRetryCnt = 1u << 10,
  kQpAttrRnrRetry = 1u << 11,
  kQpAttrRqPsn = 1u << 12,
  kQpAttrMaxQpRdAtomic = 1u << 13,
  kQpAttrAltPath = 1u << 14,
  kQpAttrMinRnrTimer = 1u << 15,
  kQpAttrSqPsn = 1u << 16,
  kQpAttrMaxDestRdAtomic = 1u << 17,
  kQpAttrPathMigState = 1u << 18,
  kQpAttrCap = 1u << 19,
  kQpAttrDestQpn = 1u << 20,
};

// attr_mask of MODIFY_SRQ. Linux sets the limit only, but may also set bit 0 (kSrqAttrMaxWr).
enum SrqAttrBit : std::uint32_t { kSrqAttrMaxWr = 1u << 0, kSrqAttrLimit = 1u << 1 };

// AhAttr.ah_flags.
enum AhFlag : std::uint8_t { kAhGrh = 1u << 0 };

// --- Structures ---

struct PortAttr {
  std::uint32_t state;        // PortState
  std::uint32_t max_mtu;      // Mtu
  std::uint32_t active_mtu;   // Mtu
  std::uint32_t gid_tbl_len;  // must equal Caps.gid_tbl_len, or the guest writes past its table
  std::uint32_t port_cap_flags;
  std::uint32_t max_msg_sz;  // bytes
  std::uint32_t bad_pkey_cntr;
  std::uint32_t qkey_viol_cntr;
  std::uint16_t pkey_tbl_len;
  std::uint16_t lid;
  std::uint16_t sm_lid;
  std::uint8_t lmc;
  std::uint8_t max_vl_num;
  std::uint8_t sm_sl;
  std::uint8_t subnet_timeout;
  std::uint8_t init_type_reply;
  std::uint8_t active_width;  // LinkWidth
  std::uint8_t active_speed;  // LinkSpeed
  std::uint8_t phys_state;    // PhysState
  std::array<std::uint8_t, 2> reserved;
};
PVRDMA_ABI_STRUCT(PortAttr, 48);
PVRDMA_ABI_FIELD(PortAttr, state, 0, 4);
PVRDMA_ABI_FIELD(PortAttr, max_mtu, 4, 4);
PVRDMA_ABI_FIELD(PortAttr, active_mtu, 8, 4);
PVRDMA_ABI_FIELD(PortAttr, gid_tbl_len, 12, 4);
PVRDMA_ABI_FIELD(PortAttr, port_cap_flags, 16, 4);
PVRDMA_ABI_FIELD(PortAttr, max_msg_sz, 20, 4);
PVRDMA_ABI_FIELD(PortAttr, bad_pkey_cntr, 24, 4);
PVRDMA_ABI_FIELD(PortAttr, qkey_viol_cntr, 28, 4);
PVRDMA_ABI_FIELD(PortAttr, pkey_tbl_len, 32, 2);
PVRDMA_ABI_FIELD(PortAttr, lid, 34, 2);
PVRDMA_ABI_FIELD(PortAttr, sm_lid, 36, 2);
PVRDMA_ABI_FIELD(PortAttr, lmc, 38, 1);
PVRDMA_ABI_FIELD(PortAttr, max_vl_num, 39, 1);
PVRDMA_ABI_FIELD(PortAttr, sm_sl, 40, 1);
PVRDMA_ABI_FIELD(PortAttr, subnet_timeout, 41, 1);
PVRDMA_ABI_FIELD(PortAttr, init_type_reply, 42, 1);
PVRDMA_ABI_FIELD(PortAttr, active_width, 43, 1);
PVRDMA_ABI_FIELD(PortAttr, active_speed, 44, 1);
PVRDMA_ABI_FIELD(PortAttr, phys_state, 45, 1);

struct GlobalRoute {
  Gid dgid;
  std::uint32_t flow_label;
  std::uint8_t sgid_index;
  std::uint8_t hop_limit;
  std::uint8_t traffic_class;
  std::uint8_t reserved;
};
PVRDMA_ABI_STRUCT(GlobalRoute, 24);
PVRDMA_ABI_FIELD(GlobalRoute, dgid, 0, 16);
PVRDMA_ABI_FIELD(GlobalRoute, flow_label, 16, 4);
PVRDMA_ABI_FIELD(GlobalRoute, sgid_index, 20, 1);
PVRDMA_ABI_FIELD(GlobalRoute, hop_limit, 21, 1);
PVRDMA_ABI_FIELD(GlobalRoute, traffic_class, 22, 1);

struct AhAttr {
  GlobalRoute grh;
  std::uint16_t dlid;
  std::uint16_t vlan_id;  // never set by Linux
  std::uint8_t sl;
  std::uint8_t src_path_bits;
  std::uint8_t static_rate;
  std::uint8_t ah_flags;  // AhFlag bits
  std::uint8_t port_num;
  Mac dmac;
  std::uint8_t reserved;
};
PVRDMA_ABI_STRUCT(AhAttr, 40);
PVRDMA_ABI_FIELD(AhAttr, grh, 0, 24);
PVRDMA_ABI_FIELD(AhAttr, dlid, 24, 2);
PVRDMA_ABI_FIELD(AhAttr, vlan_id, 26, 2);
PVRDMA_ABI_FIELD(AhAttr, sl, 28, 1);
PVRDMA_ABI_FIELD(AhAttr, src_path_bits, 29, 1);
PVRDMA_ABI_FIELD(AhAttr, static_rate, 30, 1);
PVRDMA_ABI_FIELD(AhAttr, ah_flags, 31, 1);
PVRDMA_ABI_FIELD(AhAttr, port_num, 32, 1);
PVRDMA_ABI_FIELD(AhAttr, dmac, 33, 6);

struct QpCap {
  std::uint32_t max_send_wr;
  std::uint32_t max_recv_wr;
  std::uint32_t max_send_sge;
  std::uint32_t max_recv_sge;
  std::uint32_t max_inline_data;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(QpCap, 24);
PVRDMA_ABI_FIELD(QpCap, max_send_wr, 0, 4);
PVRDMA_ABI_FIELD(QpCap, max_recv_wr, 4, 4);
PVRDMA_ABI_FIELD(QpCap, max_send_sge, 8, 4);
PVRDMA_ABI_FIELD(QpCap, max_recv_sge, 12, 4);
PVRDMA_ABI_FIELD(QpCap, max_inline_data, 16, 4);

struct SrqAttr {
  std::uint32_t max_wr;
  std::uint32_t max_sge;
  std::uint32_t srq_limit;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(SrqAttr, 16);
PVRDMA_ABI_FIELD(SrqAttr, max_wr, 0, 4);
PVRDMA_ABI_FIELD(SrqAttr, max_sge, 4, 4);
PVRDMA_ABI_FIELD(SrqAttr, srq_limit, 8, 4);

// The guest copies a caller's whole struct: fields that attr_mask does not name hold random data.
struct QpAttr {
  std::uint32_t qp_state;        // QpState
  std::uint32_t cur_qp_state;    // QpState
  std::uint32_t path_mtu;        // Mtu
  std::uint32_t path_mig_state;  // PathMigState
  std::uint32_t qkey;
  std::uint32_t rq_psn;
  std::uint32_t sq_psn;
  std::uint32_t dest_qp_num;
  std::uint32_t qp_access_flags;  // AccessFlag bits
  std::uint16_t pkey_index;
  std::uint16_t alt_pkey_index;
  std::uint8_t en_sqd_async_notify;
  std::uint8_t sq_draining;  // QUERY_QP only
  std::uint8_t max_rd_atomic;
  std::uint8_t max_dest_rd_atomic;
  std::uint8_t min_rnr_timer;
  std::uint8_t port_num;
  std::uint8_t timeout;
  std::uint8_t retry_cnt;
  std::uint8_t rnr_retry;
  std::uint8_t alt_port_num;
  std::uint8_t alt_timeout;
  std::array<std::uint8_t, 5> reserved;
  QpCap cap;
  AhAttr ah_attr;
  AhAttr alt_ah_attr;
};
PVRDMA_ABI_STRUCT(QpAttr, 160);
PVRDMA_ABI_FIELD(QpAttr, qp_state, 0, 4);
PVRDMA_ABI_FIELD(QpAttr, cur_qp_state, 4, 4);
PVRDMA_ABI_FIELD(QpAttr, path_mtu, 8, 4);
PVRDMA_ABI_FIELD(QpAttr, path_mig_state, 12, 4);
PVRDMA_ABI_FIELD(QpAttr, qkey, 16, 4);
PVRDMA_ABI_FIELD(QpAttr, rq_psn, 20, 4);
PVRDMA_ABI_FIELD(QpAttr, sq_psn, 24, 4);
PVRDMA_ABI_FIELD(QpAttr, dest_qp_num, 28, 4);
PVRDMA_ABI_FIELD(QpAttr, qp_access_flags, 32, 4);
PVRDMA_ABI_FIELD(QpAttr, pkey_index, 36, 2);
PVRDMA_ABI_FIELD(QpAttr, alt_pkey_index, 38, 2);
PVRDMA_ABI_FIELD(QpAttr, en_sqd_async_notify, 40, 1);
PVRDMA_ABI_FIELD(QpAttr, sq_draining, 41, 1);
PVRDMA_ABI_FIELD(QpAttr, max_rd_atomic, 42, 1);
PVRDMA_ABI_FIELD(QpAttr, max_dest_rd_atomic, 43, 1);
PVRDMA_ABI_FIELD(QpAttr, min_rnr_timer, 44, 1);
PVRDMA_ABI_FIELD(QpAttr, port_num, 45, 1);
PVRDMA_ABI_FIELD(QpAttr, timeout, 46, 1);
PVRDMA_ABI_FIELD(QpAttr, retry_cnt, 47, 1);
PVRDMA_ABI_FIELD(QpAttr, rnr_retry, 48, 1);
PVRDMA_ABI_FIELD(QpAttr, alt_port_num, 49, 1);
PVRDMA_ABI_FIELD(QpAttr, alt_timeout, 50, 1);
PVRDMA_ABI_FIELD(QpAttr, cap, 56, 24);
PVRDMA_ABI_FIELD(QpAttr, ah_attr, 80, 40);
PVRDMA_ABI_FIELD(QpAttr, alt_ah_attr, 120, 40);

}  // namespace pvrdma::abi
