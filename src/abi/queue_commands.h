// Requests and responses of the commands on SRQs and QPs (docs/device.md sections 3.2 and 3.3).
//
// Little-endian; every request and response begins with its header. Thread: plain data.
#pragma once

#include <array>
#include <cstdint>

#include "abi/attributes.h"
#include "abi/command_header.h"

namespace pvrdma::abi {

// --- Shared receive queue (7.7) ---

struct CreateSrqRequest {
  RequestHeader hdr;
  std::uint64_t pdir_dma;
  std::uint32_t pd_handle;
  std::uint32_t nchunks;  // pages; page 0 is the ring state
  SrqAttr attrs;
  std::uint8_t srq_type;  // 0: basic, the only type that exists
  std::array<std::uint8_t, 7> reserved;
};
PVRDMA_ABI_STRUCT(CreateSrqRequest, 56);
PVRDMA_ABI_FIELD(CreateSrqRequest, pdir_dma, 16, 8);
PVRDMA_ABI_FIELD(CreateSrqRequest, pd_handle, 24, 4);
PVRDMA_ABI_FIELD(CreateSrqRequest, nchunks, 28, 4);
PVRDMA_ABI_FIELD(CreateSrqRequest, attrs, 32, 16);
PVRDMA_ABI_FIELD(CreateSrqRequest, srq_type, 48, 1);

struct CreateSrqResponse {
  ResponseHeader hdr;
  std::uint32_t srqn;  // the handle, below Caps.max_srq
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(CreateSrqResponse, 24);
PVRDMA_ABI_FIELD(CreateSrqResponse, srqn, 16, 4);

struct ModifySrqRequest {
  RequestHeader hdr;
  std::uint32_t srq_handle;
  std::uint32_t attr_mask;  // SrqAttrBit bits
  SrqAttr attrs;
};
PVRDMA_ABI_STRUCT(ModifySrqRequest, 40);
PVRDMA_ABI_FIELD(ModifySrqRequest, srq_handle, 16, 4);
PVRDMA_ABI_FIELD(ModifySrqRequest, attr_mask, 20, 4);
PVRDMA_ABI_FIELD(ModifySrqRequest, attrs, 24, 16);

struct QuerySrqRequest {
  RequestHeader hdr;
  std::uint32_t srq_handle;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(QuerySrqRequest, 24);
PVRDMA_ABI_FIELD(QuerySrqRequest, srq_handle, 16, 4);

struct QuerySrqResponse {
  ResponseHeader hdr;
  SrqAttr attrs;
};
PVRDMA_ABI_STRUCT(QuerySrqResponse, 32);
PVRDMA_ABI_FIELD(QuerySrqResponse, attrs, 16, 16);

struct DestroySrqRequest {
  RequestHeader hdr;
  std::uint32_t srq_handle;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(DestroySrqRequest, 24);
PVRDMA_ABI_FIELD(DestroySrqRequest, srq_handle, 16, 4);

// --- Queue pair (3.3, 3.4) ---

struct CreateQpRequest {
  RequestHeader hdr;
  std::uint64_t pdir_dma;
  std::uint32_t pd_handle;
  std::uint32_t send_cq_handle;
  std::uint32_t recv_cq_handle;
  std::uint32_t srq_handle;  // valid if is_srq
  std::uint32_t max_send_wr;
  std::uint32_t max_recv_wr;
  std::uint32_t max_send_sge;
  std::uint32_t max_recv_sge;
  std::uint32_t max_inline_data;
  std::uint32_t lkey;
  std::uint32_t access_flags;
  std::uint16_t
      total_chunks;  // pages: 1 of ring state, send, receive; a guest that needs more sends the low 16 bits
  std::uint16_t send_chunks;  // pages of the send ring
  std::uint16_t max_atomic_arg;
  std::uint8_t sq_sig_all;
  std::uint8_t qp_type;  // QpType
  std::uint8_t is_srq;
  std::array<std::uint8_t, 3> reserved;
};
PVRDMA_ABI_STRUCT(CreateQpRequest, 80);
PVRDMA_ABI_FIELD(CreateQpRequest, pdir_dma, 16, 8);
PVRDMA_ABI_FIELD(CreateQpRequest, pd_handle, 24, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, send_cq_handle, 28, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, recv_cq_handle, 32, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, srq_handle, 36, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, max_send_wr, 40, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, max_recv_wr, 44, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, max_send_sge, 48, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, max_recv_sge, 52, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, max_inline_data, 56, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, lkey, 60, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, access_flags, 64, 4);
PVRDMA_ABI_FIELD(CreateQpRequest, total_chunks, 68, 2);
PVRDMA_ABI_FIELD(CreateQpRequest, send_chunks, 70, 2);
PVRDMA_ABI_FIELD(CreateQpRequest, max_atomic_arg, 72, 2);
PVRDMA_ABI_FIELD(CreateQpRequest, sq_sig_all, 74, 1);
PVRDMA_ABI_FIELD(CreateQpRequest, qp_type, 75, 1);
PVRDMA_ABI_FIELD(CreateQpRequest, is_srq, 76, 1);

// The response of versions below kVersionQpHandle, where the QP number is the handle.
struct CreateQpResponse {
  ResponseHeader hdr;
  std::uint32_t qpn;
  std::uint32_t max_send_wr;
  std::uint32_t max_recv_wr;
  std::uint32_t max_send_sge;
  std::uint32_t max_recv_sge;
  std::uint32_t max_inline_data;
};
PVRDMA_ABI_STRUCT(CreateQpResponse, 40);
PVRDMA_ABI_FIELD(CreateQpResponse, qpn, 16, 4);
PVRDMA_ABI_FIELD(CreateQpResponse, max_send_wr, 20, 4);
PVRDMA_ABI_FIELD(CreateQpResponse, max_recv_wr, 24, 4);
PVRDMA_ABI_FIELD(CreateQpResponse, max_send_sge, 28, 4);
PVRDMA_ABI_FIELD(CreateQpResponse, max_recv_sge, 32, 4);
PVRDMA_ABI_FIELD(CreateQpResponse, max_inline_data, 36, 4);

// The response of versions from kVersionQpHandle on.
struct CreateQpResponseV2 {
  ResponseHeader hdr;
  std::uint32_t qpn;
  std::uint32_t qp_handle;  // below Caps.max_qp, not 0 for a user QP
  std::uint32_t max_send_wr;
  std::uint32_t max_recv_wr;
  std::uint32_t max_send_sge;
  std::uint32_t max_recv_sge;
  std::uint32_t max_inline_data;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(CreateQpResponseV2, 48);
PVRDMA_ABI_FIELD(CreateQpResponseV2, qpn, 16, 4);
PVRDMA_ABI_FIELD(CreateQpResponseV2, qp_handle, 20, 4);
PVRDMA_ABI_FIELD(CreateQpResponseV2, max_send_wr, 24, 4);
PVRDMA_ABI_FIELD(CreateQpResponseV2, max_recv_wr, 28, 4);
PVRDMA_ABI_FIELD(CreateQpResponseV2, max_send_sge, 32, 4);
PVRDMA_ABI_FIELD(CreateQpResponseV2, max_recv_sge, 36, 4);
PVRDMA_ABI_FIELD(CreateQpResponseV2, max_inline_data, 40, 4);

struct ModifyQpRequest {
  RequestHeader hdr;
  std::uint32_t qp_handle;
  std::uint32_t attr_mask;  // QpAttrBit bits
  QpAttr attrs;
};
PVRDMA_ABI_STRUCT(ModifyQpRequest, 184);
PVRDMA_ABI_FIELD(ModifyQpRequest, qp_handle, 16, 4);
PVRDMA_ABI_FIELD(ModifyQpRequest, attr_mask, 20, 4);
PVRDMA_ABI_FIELD(ModifyQpRequest, attrs, 24, 160);
static_assert(sizeof(ModifyQpRequest) == kRequestSlotBytes);

struct ModifyQpResponse {
  ResponseHeader hdr;  // the only response whose err the guest checks
};
PVRDMA_ABI_STRUCT(ModifyQpResponse, 16);

struct QueryQpRequest {
  RequestHeader hdr;
  std::uint32_t qp_handle;
  std::uint32_t attr_mask;
};
PVRDMA_ABI_STRUCT(QueryQpRequest, 24);
PVRDMA_ABI_FIELD(QueryQpRequest, qp_handle, 16, 4);
PVRDMA_ABI_FIELD(QueryQpRequest, attr_mask, 20, 4);

struct QueryQpResponse {
  ResponseHeader hdr;
  QpAttr attrs;
};
PVRDMA_ABI_STRUCT(QueryQpResponse, 176);
PVRDMA_ABI_FIELD(QueryQpResponse, attrs, 16, 160);
static_assert(sizeof(QueryQpResponse) == kResponseSlotBytes);

struct DestroyQpRequest {
  RequestHeader hdr;
  std::uint32_t qp_handle;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(DestroyQpRequest, 24);
PVRDMA_ABI_FIELD(DestroyQpRequest, qp_handle, 16, 4);

}  // namespace pvrdma::abi
