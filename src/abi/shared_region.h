// The device shared region: what guest and device tell each other when the driver starts (docs/device.md
// section 2).
//
// The guest fills everything except `caps` and writes the region's address to DSRLOW/DSRHIGH. The device
// fills `caps` once, before it acknowledges that write, and never reads it back. Little-endian. Thread: plain
// data.
#pragma once

#include <cstdint>

#include "abi/endian.h"

namespace pvrdma::abi {

// The page directory of a ring (2.1).
struct RingPages {
  std::uint32_t num_pages;  // including the state page; Linux: 4
  std::uint32_t reserved;
  std::uint64_t pdir_dma;  // guest-physical
};
PVRDMA_ABI_STRUCT(RingPages, 16);
PVRDMA_ABI_FIELD(RingPages, num_pages, 0, 4);
PVRDMA_ABI_FIELD(RingPages, pdir_dma, 8, 8);

// Caps.mode. Linux accepts RoCE only.
enum class Mode : std::uint8_t { kRoce = 0, kIwarp = 1, kInfiniband = 2 };

// Bits of Caps.gid_types and values of CREATE_BIND's gid_type. A device offers exactly one (1.7).
enum GidType : std::uint8_t { kGidTypeRocev1 = 1u << 0, kGidTypeRocev2 = 1u << 1 };

// Bits of Caps.bmme_flags. The driver offers memory-management extensions only if all three are set.
enum BmmeFlag : std::uint8_t { kBmmeLocalInv = 1u << 0, kBmmeRemoteInv = 1u << 1, kBmmeFastReg = 1u << 2 };

// Bits of Caps.atomic_ops.
enum AtomicOp : std::uint8_t { kAtomicCompareSwap = 1u << 0, kAtomicFetchAdd = 1u << 1 };

// Capabilities (2.2). Fields that Linux never reads must be zero.
struct Caps {
  std::uint64_t fw_ver;  // a.b.c = bits 32 and up, 16-31, 0-15
  Be64 node_guid;
  Be64 sys_image_guid;
  std::uint64_t max_mr_size;  // bytes
  std::uint64_t page_size_cap;
  std::uint64_t atomic_arg_sizes;
  std::uint32_t ex_comp_mask;
  std::uint32_t device_cap_flags2;
  std::uint32_t max_fa_bit_boundary;
  std::uint32_t log_max_atomic_inline_arg;
  std::uint32_t vendor_id;
  std::uint32_t vendor_part_id;
  std::uint32_t hw_ver;
  std::uint32_t max_qp;  // never 0, below 65536
  std::uint32_t max_qp_wr;
  std::uint32_t device_cap_flags;
  std::uint32_t max_sge;
  std::uint32_t max_sge_rd;
  std::uint32_t max_cq;
  std::uint32_t max_cqe;  // a power of two
  std::uint32_t max_mr;
  std::uint32_t max_pd;
  std::uint32_t max_qp_rd_atom;
  std::uint32_t max_ee_rd_atom;
  std::uint32_t max_res_rd_atom;
  std::uint32_t max_qp_init_rd_atom;
  std::uint32_t max_ee_init_rd_atom;
  std::uint32_t max_ee;
  std::uint32_t max_rdd;
  std::uint32_t max_mw;
  std::uint32_t max_raw_ipv6_qp;
  std::uint32_t max_raw_ethy_qp;
  std::uint32_t max_mcast_grp;
  std::uint32_t max_mcast_qp_attach;
  std::uint32_t max_total_mcast_qp_attach;
  std::uint32_t max_ah;
  std::uint32_t max_fmr;
  std::uint32_t max_map_per_fmr;
  std::uint32_t max_srq;  // 0: the device has no SRQ verbs
  std::uint32_t max_srq_wr;
  std::uint32_t max_srq_sge;
  std::uint32_t max_uar;  // a power of two
  std::uint32_t gid_tbl_len;
  std::uint16_t max_pkeys;
  std::uint8_t local_ca_ack_delay;
  std::uint8_t phys_port_cnt;
  std::uint8_t mode;        // Mode
  std::uint8_t atomic_ops;  // AtomicOp bits
  std::uint8_t bmme_flags;  // BmmeFlag bits
  std::uint8_t gid_types;   // one GidType
  std::uint32_t max_fast_reg_page_list_len;
};
PVRDMA_ABI_STRUCT(Caps, 208);
PVRDMA_ABI_FIELD(Caps, fw_ver, 0, 8);
PVRDMA_ABI_FIELD(Caps, node_guid, 8, 8);
PVRDMA_ABI_FIELD(Caps, sys_image_guid, 16, 8);
PVRDMA_ABI_FIELD(Caps, max_mr_size, 24, 8);
PVRDMA_ABI_FIELD(Caps, page_size_cap, 32, 8);
PVRDMA_ABI_FIELD(Caps, atomic_arg_sizes, 40, 8);
PVRDMA_ABI_FIELD(Caps, ex_comp_mask, 48, 4);
PVRDMA_ABI_FIELD(Caps, device_cap_flags2, 52, 4);
PVRDMA_ABI_FIELD(Caps, max_fa_bit_boundary, 56, 4);
PVRDMA_ABI_FIELD(Caps, log_max_atomic_inline_arg, 60, 4);
PVRDMA_ABI_FIELD(Caps, vendor_id, 64, 4);
PVRDMA_ABI_FIELD(Caps, vendor_part_id, 68, 4);
PVRDMA_ABI_FIELD(Caps, hw_ver, 72, 4);
PVRDMA_ABI_FIELD(Caps, max_qp, 76, 4);
PVRDMA_ABI_FIELD(Caps, max_qp_wr, 80, 4);
PVRDMA_ABI_FIELD(Caps, device_cap_flags, 84, 4);
PVRDMA_ABI_FIELD(Caps, max_sge, 88, 4);
PVRDMA_ABI_FIELD(Caps, max_sge_rd, 92, 4);
PVRDMA_ABI_FIELD(Caps, max_cq, 96, 4);
PVRDMA_ABI_FIELD(Caps, max_cqe, 100, 4);
PVRDMA_ABI_FIELD(Caps, max_mr, 104, 4);
PVRDMA_ABI_FIELD(Caps, max_pd, 108, 4);
PVRDMA_ABI_FIELD(Caps, max_qp_rd_atom, 112, 4);
PVRDMA_ABI_FIELD(Caps, max_ee_rd_atom, 116, 4);
PVRDMA_ABI_FIELD(Caps, max_res_rd_atom, 120, 4);
PVRDMA_ABI_FIELD(Caps, max_qp_init_rd_atom, 124, 4);
PVRDMA_ABI_FIELD(Caps, max_ee_init_rd_atom, 128, 4);
PVRDMA_ABI_FIELD(Caps, max_ee, 132, 4);
PVRDMA_ABI_FIELD(Caps, max_rdd, 136, 4);
PVRDMA_ABI_FIELD(Caps, max_mw, 140, 4);
PVRDMA_ABI_FIELD(Caps, max_raw_ipv6_qp, 144, 4);
PVRDMA_ABI_FIELD(Caps, max_raw_ethy_qp, 148, 4);
PVRDMA_ABI_FIELD(Caps, max_mcast_grp, 152, 4);
PVRDMA_ABI_FIELD(Caps, max_mcast_qp_attach, 156, 4);
PVRDMA_ABI_FIELD(Caps, max_total_mcast_qp_attach, 160, 4);
PVRDMA_ABI_FIELD(Caps, max_ah, 164, 4);
PVRDMA_ABI_FIELD(Caps, max_fmr, 168, 4);
PVRDMA_ABI_FIELD(Caps, max_map_per_fmr, 172, 4);
PVRDMA_ABI_FIELD(Caps, max_srq, 176, 4);
PVRDMA_ABI_FIELD(Caps, max_srq_wr, 180, 4);
PVRDMA_ABI_FIELD(Caps, max_srq_sge, 184, 4);
PVRDMA_ABI_FIELD(Caps, max_uar, 188, 4);
PVRDMA_ABI_FIELD(Caps, gid_tbl_len, 192, 4);
PVRDMA_ABI_FIELD(Caps, max_pkeys, 196, 2);
PVRDMA_ABI_FIELD(Caps, local_ca_ack_delay, 198, 1);
PVRDMA_ABI_FIELD(Caps, phys_port_cnt, 199, 1);
PVRDMA_ABI_FIELD(Caps, mode, 200, 1);
PVRDMA_ABI_FIELD(Caps, atomic_ops, 201, 1);
PVRDMA_ABI_FIELD(Caps, bmme_flags, 202, 1);
PVRDMA_ABI_FIELD(Caps, gid_types, 203, 1);
PVRDMA_ABI_FIELD(Caps, max_fast_reg_page_list_len, 204, 4);

// The whole region (2.1).
struct DeviceSharedRegion {
  std::uint32_t driver_version;  // 20 for Linux 6.12
  std::uint32_t pad;
  std::uint32_t gos_info;  // bits 0-1 word size (1: 32, 2: 64), 2-5 OS (1: Linux), 6-21 version, 22-31 other
  std::uint32_t pad2;
  std::uint64_t cmd_slot_dma;   // guest-physical address of the command page
  std::uint64_t resp_slot_dma;  // guest-physical address of the response page
  RingPages async_ring_pages;
  RingPages cq_ring_pages;
  std::uint64_t
      uar_pfn;  // (BAR 2 base >> 12) of the driver's own UAR page; versions 17 and 18 fill the low half only
  Caps caps;
};
PVRDMA_ABI_STRUCT(DeviceSharedRegion, 280);
PVRDMA_ABI_FIELD(DeviceSharedRegion, driver_version, 0, 4);
PVRDMA_ABI_FIELD(DeviceSharedRegion, gos_info, 8, 4);
PVRDMA_ABI_FIELD(DeviceSharedRegion, cmd_slot_dma, 16, 8);
PVRDMA_ABI_FIELD(DeviceSharedRegion, resp_slot_dma, 24, 8);
PVRDMA_ABI_FIELD(DeviceSharedRegion, async_ring_pages, 32, 16);
PVRDMA_ABI_FIELD(DeviceSharedRegion, cq_ring_pages, 48, 16);
PVRDMA_ABI_FIELD(DeviceSharedRegion, uar_pfn, 64, 8);
PVRDMA_ABI_FIELD(DeviceSharedRegion, caps, 72, 208);
static_assert(offsetof(DeviceSharedRegion, caps) + offsetof(Caps, max_uar) == 260);
static_assert(offsetof(DeviceSharedRegion, caps) + offsetof(Caps, gid_types) == 275);

}  // namespace pvrdma::abi
