// Completion queue entries (docs/device.md section 6.5 and Appendix A). Thread: plain data and pure
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "abi/endian.h"

namespace pvrdma::abi {

// InfiniBand numbering.
enum class CompletionStatus : std::uint32_t {
  kSuccess = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalEecOperation = 3,
  kLocalProtection = 4,
  kFlushed = 5,
  kMwBind = 6,
  kBadResponse = 7,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kLocalRddViolation = 14,
  kRemoteInvalidRdRequest = 15,
  kRemoteAborted = 16,
  kInvalidEecn = 17,
  kInvalidEecState = 18,
  kFatal = 19,
  kResponseTimeout = 20,
  kGeneral = 21,
};

constexpr std::optional<CompletionStatus> parse_completion_status(std::uint32_t raw) {
  if (raw > static_cast<std::uint32_t>(CompletionStatus::kGeneral)) return std::nullopt;
  return static_cast<CompletionStatus>(raw);
}

enum class CompletionOpcode : std::uint32_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLso = 6,
  kLocalInv = 7,
  kFastRegMr = 8,
  kMaskedCompSwap = 9,
  kMaskedFetchAdd = 10,
  kRecv = 0x80,
  kRecvRdmaWithImm = 0x81,
};

constexpr std::optional<CompletionOpcode> parse_completion_opcode(std::uint32_t raw) {
  const bool requester = raw <= static_cast<std::uint32_t>(CompletionOpcode::kMaskedFetchAdd);
  const bool responder = raw == static_cast<std::uint32_t>(CompletionOpcode::kRecv) ||
                         raw == static_cast<std::uint32_t>(CompletionOpcode::kRecvRdmaWithImm);
  if (!requester && !responder) return std::nullopt;
  return static_cast<CompletionOpcode>(raw);
}

// Cqe.wc_flags. Bits 16 (smac) and 32 (vlan) also exist and must never be set, because the driver copies
// neither field.
enum WcFlag : std::uint32_t {
  kWcGrh = 1u << 0,
  kWcWithImm = 1u << 1,
  kWcWithInvalidate = 1u << 2,
  kWcWithNetworkHdrType = 1u << 6,  // kernel QPs only: user verbs give this bit another meaning
};

// Cqe.network_hdr_type, valid with kWcWithNetworkHdrType.
enum class NetworkHdrType : std::uint8_t { kRocev1 = 0, kIpv4 = 1, kIpv6 = 2 };

struct Cqe {
  std::uint64_t wr_id;
  std::uint64_t qp;        // QP handle
  std::uint32_t opcode;    // CompletionOpcode
  std::uint32_t status;    // CompletionStatus
  std::uint32_t byte_len;  // bytes received, read or swapped
  Be32 imm_data;           // as on the wire; with kWcWithInvalidate, `raw` is an rkey in host order
  std::uint32_t src_qp;    // UD and GSI: the sender's QP number
  std::uint32_t wc_flags;  // WcFlag bits
  std::uint32_t vendor_err;
  std::uint16_t pkey_index;
  std::uint16_t slid;
  std::uint8_t sl;
  std::uint8_t dlid_path_bits;
  std::uint8_t port_num;
  Mac smac;
  std::uint8_t network_hdr_type;  // NetworkHdrType
  std::array<std::uint8_t, 6> reserved2;
};
PVRDMA_ABI_STRUCT(Cqe, 64);
PVRDMA_ABI_FIELD(Cqe, wr_id, 0, 8);
PVRDMA_ABI_FIELD(Cqe, qp, 8, 8);
PVRDMA_ABI_FIELD(Cqe, opcode, 16, 4);
PVRDMA_ABI_FIELD(Cqe, status, 20, 4);
PVRDMA_ABI_FIELD(Cqe, byte_len, 24, 4);
PVRDMA_ABI_FIELD(Cqe, imm_data, 28, 4);
PVRDMA_ABI_FIELD(Cqe, src_qp, 32, 4);
PVRDMA_ABI_FIELD(Cqe, wc_flags, 36, 4);
PVRDMA_ABI_FIELD(Cqe, vendor_err, 40, 4);
PVRDMA_ABI_FIELD(Cqe, pkey_index, 44, 2);
PVRDMA_ABI_FIELD(Cqe, slid, 46, 2);
PVRDMA_ABI_FIELD(Cqe, sl, 48, 1);
PVRDMA_ABI_FIELD(Cqe, dlid_path_bits, 49, 1);
PVRDMA_ABI_FIELD(Cqe, port_num, 50, 1);
PVRDMA_ABI_FIELD(Cqe, smac, 51, 6);
PVRDMA_ABI_FIELD(Cqe, network_hdr_type, 57, 1);
PVRDMA_ABI_FIELD(Cqe, reserved2, 58, 6);

}  // namespace pvrdma::abi
