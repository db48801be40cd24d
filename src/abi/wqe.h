// Work queue entries as the guest writes them into its send and receive rings (docs/device.md sections 4.5
// and 6).
//
// A send WQE is a SendWqeHeader (80 bytes) followed by num_sge Sge. A receive WQE is a RecvWqeHeader (16
// bytes) followed by num_sge Sge. Fields that an opcode does not use hold data of an earlier WQE.
// Little-endian unless the type says otherwise. Thread: plain data and pure functions.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>

#include "abi/endian.h"

namespace pvrdma::abi {

// The kernel's numbering. User space passes its own verbs numbers, which are the same only for 0 to 6 (6.2).
enum class Opcode : std::uint32_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kAtomicCmpAndSwp = 5,
  kAtomicFetchAndAdd = 6,
  kLso = 7,
  kSendWithInv = 8,
  kRdmaReadWithInv = 9,
  kLocalInv = 10,
  kFastRegMr = 11,
  kMaskedAtomicCmpAndSwp = 12,
  kMaskedAtomicFetchAndAdd = 13,
  kBindMw = 14,
  kRegSigMr = 15,
};

// 16 means "error" in the guest's numbering, so it does not parse.
constexpr std::optional<Opcode> parse_opcode(std::uint32_t raw) {
  if (raw > static_cast<std::uint32_t>(Opcode::kRegSigMr)) return std::nullopt;
  return static_cast<Opcode>(raw);
}

enum SendFlag : std::uint32_t {
  kSendFence = 1u << 0,
  kSendSignaled = 1u << 1,
  kSendSolicited = 1u << 2,
  kSendInline = 1u << 3,  // WQEs never carry inline data: ignore it and read the SGEs (6.1)
  kSendIpCsum = 1u << 4,
};
inline constexpr std::uint32_t kSendFlagMask = 0x1f;

// Scatter/gather element, of sends and receives.
struct Sge {
  std::uint64_t addr;
  std::uint32_t length;  // bytes
  std::uint32_t lkey;
};
PVRDMA_ABI_STRUCT(Sge, 16);
PVRDMA_ABI_FIELD(Sge, addr, 0, 8);
PVRDMA_ABI_FIELD(Sge, length, 8, 4);
PVRDMA_ABI_FIELD(Sge, lkey, 12, 4);

struct AddressVector {
  std::uint32_t port_pd;              // PD handle | port << 24
  std::uint32_t sl_tclass_flowlabel;  // traffic class << 20 | flow label; no SL
  Gid dgid;
  std::uint8_t src_path_bits;
  std::uint8_t gid_index;
  std::uint8_t stat_rate;
  std::uint8_t hop_limit;
  Mac dmac;
  std::array<std::uint8_t, 6> reserved;

  constexpr std::uint8_t port_num() const { return static_cast<std::uint8_t>(port_pd >> 24); }
  constexpr std::uint32_t flow_label() const { return sl_tclass_flowlabel & 0xfffff; }
  constexpr std::uint8_t traffic_class() const {
    return static_cast<std::uint8_t>(sl_tclass_flowlabel >> 20);
  }
};
PVRDMA_ABI_STRUCT(AddressVector, 40);
PVRDMA_ABI_FIELD(AddressVector, port_pd, 0, 4);
PVRDMA_ABI_FIELD(AddressVector, sl_tclass_flowlabel, 4, 4);
PVRDMA_ABI_FIELD(AddressVector, dgid, 8, 16);
PVRDMA_ABI_FIELD(AddressVector, src_path_bits, 24, 1);
PVRDMA_ABI_FIELD(AddressVector, gid_index, 25, 1);
PVRDMA_ABI_FIELD(AddressVector, stat_rate, 26, 1);
PVRDMA_ABI_FIELD(AddressVector, hop_limit, 27, 1);
PVRDMA_ABI_FIELD(AddressVector, dmac, 28, 6);

// --- Forms of SendWqeHeader.fields. Offsets count from its start: 32 less than in the reference ---

// RDMA write, write with immediate, read.
struct RdmaFields {
  std::uint64_t remote_addr;
  std::uint32_t rkey;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(RdmaFields, 16);
PVRDMA_ABI_FIELD(RdmaFields, remote_addr, 0, 8);
PVRDMA_ABI_FIELD(RdmaFields, rkey, 8, 4);

// Compare & swap, fetch & add. A fetch & add leaves `swap` unset.
struct AtomicFields {
  std::uint64_t remote_addr;
  std::uint64_t compare_add;
  std::uint64_t swap;
  std::uint32_t rkey;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(AtomicFields, 32);
PVRDMA_ABI_FIELD(AtomicFields, remote_addr, 0, 8);
PVRDMA_ABI_FIELD(AtomicFields, compare_add, 8, 8);
PVRDMA_ABI_FIELD(AtomicFields, swap, 16, 8);
PVRDMA_ABI_FIELD(AtomicFields, rkey, 24, 4);

// Fast register (6.4).
struct FastRegFields {
  std::uint64_t iova_start;
  std::uint64_t pl_pdir_dma;
  std::uint32_t page_shift;
  std::uint32_t page_list_len;  // pages
  std::uint32_t length;         // bytes
  std::uint32_t access_flags;
  std::uint32_t rkey;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(FastRegFields, 40);
PVRDMA_ABI_FIELD(FastRegFields, iova_start, 0, 8);
PVRDMA_ABI_FIELD(FastRegFields, pl_pdir_dma, 8, 8);
PVRDMA_ABI_FIELD(FastRegFields, page_shift, 16, 4);
PVRDMA_ABI_FIELD(FastRegFields, page_list_len, 20, 4);
PVRDMA_ABI_FIELD(FastRegFields, length, 24, 4);
PVRDMA_ABI_FIELD(FastRegFields, access_flags, 28, 4);
PVRDMA_ABI_FIELD(FastRegFields, rkey, 32, 4);

// Sends of UD and GSI QPs.
struct UdFields {
  std::uint32_t remote_qpn;
  std::uint32_t remote_qkey;
  AddressVector av;
};
PVRDMA_ABI_STRUCT(UdFields, 48);
PVRDMA_ABI_FIELD(UdFields, remote_qpn, 0, 4);
PVRDMA_ABI_FIELD(UdFields, remote_qkey, 4, 4);
PVRDMA_ABI_FIELD(UdFields, av, 8, 40);

template <typename T>
concept SendForm = std::same_as<T, RdmaFields> || std::same_as<T, AtomicFields> ||
    std::same_as<T, FastRegFields> || std::same_as<T, UdFields>;

struct SendWqeHeader {
  std::uint64_t wr_id;
  std::uint32_t num_sge;
  std::uint32_t total_len;   // reserved
  std::uint32_t opcode;      // Opcode
  std::uint32_t send_flags;  // SendFlag bits
  Be32 ex;                   // by opcode: the immediate in network order, or an rkey in host order in `raw`
  std::uint32_t reserved;
  std::array<std::byte, 48> fields;  // one of the forms above, depending on opcode and QP type

  constexpr Be32 imm_data() const { return ex; }
  constexpr std::uint32_t invalidate_rkey() const { return ex.raw; }
  template <SendForm T>
  T form() const {
    T out;
    std::memcpy(&out, fields.data(), sizeof(T));
    return out;
  }
  template <SendForm T>
  void set_form(const T& form) {
    std::memcpy(fields.data(), &form, sizeof(T));
  }
};
PVRDMA_ABI_STRUCT(SendWqeHeader, 80);
PVRDMA_ABI_FIELD(SendWqeHeader, wr_id, 0, 8);
PVRDMA_ABI_FIELD(SendWqeHeader, num_sge, 8, 4);
PVRDMA_ABI_FIELD(SendWqeHeader, total_len, 12, 4);
PVRDMA_ABI_FIELD(SendWqeHeader, opcode, 16, 4);
PVRDMA_ABI_FIELD(SendWqeHeader, send_flags, 20, 4);
PVRDMA_ABI_FIELD(SendWqeHeader, ex, 24, 4);
PVRDMA_ABI_FIELD(SendWqeHeader, fields, 32, 48);

struct RecvWqeHeader {
  std::uint64_t wr_id;
  std::uint32_t num_sge;
  std::uint32_t total_len;  // reserved
};
PVRDMA_ABI_STRUCT(RecvWqeHeader, 16);
PVRDMA_ABI_FIELD(RecvWqeHeader, wr_id, 0, 8);
PVRDMA_ABI_FIELD(RecvWqeHeader, num_sge, 8, 4);

// The bytes of the GRH that precedes the payload of every UD and GSI receive, in the first SGEs (6.3).
inline constexpr std::uint32_t kGrhBytes = 40;

// --- Stride of the rings (4.5) ---

// Bytes from one WQE to the next in a ring whose entries have `header_bytes` and at most `max_sge` elements.
// Nothing when that exceeds a page: such a WQE would straddle pages that are not contiguous.
constexpr std::optional<std::uint32_t> wqe_stride(std::size_t header_bytes, std::uint32_t max_sge) {
  const std::uint64_t used = header_bytes + std::uint64_t{sizeof(Sge)} * max_sge;
  if (used > kPageBytes) return std::nullopt;
  return static_cast<std::uint32_t>(std::bit_ceil(used));
}

// `max_sge` is the value in CREATE_QP or CREATE_SRQ, not rounded.
constexpr std::optional<std::uint32_t> send_wqe_stride(std::uint32_t max_sge) {
  return wqe_stride(sizeof(SendWqeHeader), max_sge);
}
constexpr std::optional<std::uint32_t> recv_wqe_stride(std::uint32_t max_sge) {
  return wqe_stride(sizeof(RecvWqeHeader), max_sge);
}

}  // namespace pvrdma::abi
