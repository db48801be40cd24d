// Requests and responses of the commands on ports, contexts, PDs, MRs, CQs and GIDs (docs/device.md section
// 3.2). The commands on QPs and SRQs are in queue_commands.h, which this file includes.
//
// Little-endian; every request and response begins with its header. Thread: plain data.
#pragma once

#include <array>
#include <cstdint>

#include "abi/attributes.h"
#include "abi/command_header.h"
#include "abi/endian.h"
#include "abi/queue_commands.h"

namespace pvrdma::abi {

// --- Port ---

struct QueryPortRequest {
  RequestHeader hdr;
  std::uint8_t port_num;
  std::array<std::uint8_t, 7> reserved;
};
PVRDMA_ABI_STRUCT(QueryPortRequest, 24);
PVRDMA_ABI_FIELD(QueryPortRequest, port_num, 16, 1);

struct QueryPortResponse {
  ResponseHeader hdr;
  PortAttr attrs;
};
PVRDMA_ABI_STRUCT(QueryPortResponse, 64);
PVRDMA_ABI_FIELD(QueryPortResponse, attrs, 16, 48);

struct QueryPkeyRequest {
  RequestHeader hdr;
  std::uint8_t port_num;
  std::uint8_t index;
  std::array<std::uint8_t, 6> reserved;
};
PVRDMA_ABI_STRUCT(QueryPkeyRequest, 24);
PVRDMA_ABI_FIELD(QueryPkeyRequest, port_num, 16, 1);
PVRDMA_ABI_FIELD(QueryPkeyRequest, index, 17, 1);

struct QueryPkeyResponse {
  ResponseHeader hdr;
  std::uint16_t pkey;
  std::array<std::uint8_t, 6> reserved;
};
PVRDMA_ABI_STRUCT(QueryPkeyResponse, 24);
PVRDMA_ABI_FIELD(QueryPkeyResponse, pkey, 16, 2);

// --- User context (UC) ---

struct CreateUcRequest {
  RequestHeader hdr;
  std::uint64_t pfn64;  // frame of the context's UAR page

  // With versions below kVersionPpn64 the guest fills only the low half.
  constexpr std::uint32_t pfn() const { return static_cast<std::uint32_t>(pfn64); }
};
PVRDMA_ABI_STRUCT(CreateUcRequest, 24);
PVRDMA_ABI_FIELD(CreateUcRequest, pfn64, 16, 8);

struct CreateUcResponse {
  ResponseHeader hdr;
  std::uint32_t ctx_handle;  // never 0, which means the kernel
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(CreateUcResponse, 24);
PVRDMA_ABI_FIELD(CreateUcResponse, ctx_handle, 16, 4);

struct DestroyUcRequest {
  RequestHeader hdr;
  std::uint32_t ctx_handle;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(DestroyUcRequest, 24);
PVRDMA_ABI_FIELD(DestroyUcRequest, ctx_handle, 16, 4);

// --- Protection domain ---

struct CreatePdRequest {
  RequestHeader hdr;
  std::uint32_t ctx_handle;  // 0: the kernel
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(CreatePdRequest, 24);
PVRDMA_ABI_FIELD(CreatePdRequest, ctx_handle, 16, 4);

struct CreatePdResponse {
  ResponseHeader hdr;
  std::uint32_t pd_handle;  // below 2^24
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(CreatePdResponse, 24);
PVRDMA_ABI_FIELD(CreatePdResponse, pd_handle, 16, 4);

struct DestroyPdRequest {
  RequestHeader hdr;
  std::uint32_t pd_handle;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(DestroyPdRequest, 24);
PVRDMA_ABI_FIELD(DestroyPdRequest, pd_handle, 16, 4);

// --- Memory region (7.5) ---

// CreateMrRequest.flags: which kind of region. User memory has neither bit.
enum MrFlag : std::uint32_t { kMrDma = 1u << 0, kMrFastReg = 1u << 1 };

struct CreateMrRequest {
  RequestHeader hdr;
  std::uint64_t start;   // user virtual address
  std::uint64_t length;  // bytes
  std::uint64_t pdir_dma;
  std::uint32_t pd_handle;
  std::uint32_t access_flags;  // AccessFlag bits; mask other bits off
  std::uint32_t flags;         // MrFlag bits
  std::uint32_t nchunks;       // pages
};
PVRDMA_ABI_STRUCT(CreateMrRequest, 56);
PVRDMA_ABI_FIELD(CreateMrRequest, start, 16, 8);
PVRDMA_ABI_FIELD(CreateMrRequest, length, 24, 8);
PVRDMA_ABI_FIELD(CreateMrRequest, pdir_dma, 32, 8);
PVRDMA_ABI_FIELD(CreateMrRequest, pd_handle, 40, 4);
PVRDMA_ABI_FIELD(CreateMrRequest, access_flags, 44, 4);
PVRDMA_ABI_FIELD(CreateMrRequest, flags, 48, 4);
PVRDMA_ABI_FIELD(CreateMrRequest, nchunks, 52, 4);

struct CreateMrResponse {
  ResponseHeader hdr;
  std::uint32_t mr_handle;
  std::uint32_t lkey;
  std::uint32_t rkey;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(CreateMrResponse, 32);
PVRDMA_ABI_FIELD(CreateMrResponse, mr_handle, 16, 4);
PVRDMA_ABI_FIELD(CreateMrResponse, lkey, 20, 4);
PVRDMA_ABI_FIELD(CreateMrResponse, rkey, 24, 4);

struct DestroyMrRequest {
  RequestHeader hdr;
  std::uint32_t mr_handle;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(DestroyMrRequest, 24);
PVRDMA_ABI_FIELD(DestroyMrRequest, mr_handle, 16, 4);

// --- Completion queue ---

struct CreateCqRequest {
  RequestHeader hdr;
  std::uint64_t pdir_dma;
  std::uint32_t ctx_handle;  // 0: the kernel
  std::uint32_t cqe;         // ring entries
  std::uint32_t nchunks;     // pages; page 0 is the ring state
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(CreateCqRequest, 40);
PVRDMA_ABI_FIELD(CreateCqRequest, pdir_dma, 16, 8);
PVRDMA_ABI_FIELD(CreateCqRequest, ctx_handle, 24, 4);
PVRDMA_ABI_FIELD(CreateCqRequest, cqe, 28, 4);
PVRDMA_ABI_FIELD(CreateCqRequest, nchunks, 32, 4);

struct CreateCqResponse {
  ResponseHeader hdr;
  std::uint32_t cq_handle;  // below Caps.max_cq
  std::uint32_t cqe;        // exactly as requested: the guest adopts it as ring size
};
PVRDMA_ABI_STRUCT(CreateCqResponse, 24);
PVRDMA_ABI_FIELD(CreateCqResponse, cq_handle, 16, 4);
PVRDMA_ABI_FIELD(CreateCqResponse, cqe, 20, 4);

struct ResizeCqRequest {
  RequestHeader hdr;
  std::uint32_t cq_handle;
  std::uint32_t cqe;
};
PVRDMA_ABI_STRUCT(ResizeCqRequest, 24);
PVRDMA_ABI_FIELD(ResizeCqRequest, cq_handle, 16, 4);
PVRDMA_ABI_FIELD(ResizeCqRequest, cqe, 20, 4);

struct ResizeCqResponse {
  ResponseHeader hdr;
  std::uint32_t cqe;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(ResizeCqResponse, 24);
PVRDMA_ABI_FIELD(ResizeCqResponse, cqe, 16, 4);

struct DestroyCqRequest {
  RequestHeader hdr;
  std::uint32_t cq_handle;
  std::uint32_t reserved;
};
PVRDMA_ABI_STRUCT(DestroyCqRequest, 24);
PVRDMA_ABI_FIELD(DestroyCqRequest, cq_handle, 16, 4);

// --- GID table ---

struct CreateBindRequest {
  RequestHeader hdr;
  std::uint32_t mtu;   // bytes, not the value of Mtu
  std::uint32_t vlan;  // 0xfff: no VLAN
  std::uint32_t index;
  Gid new_gid;
  std::uint8_t gid_type;  // GidType
  std::array<std::uint8_t, 3> reserved;
};
PVRDMA_ABI_STRUCT(CreateBindRequest, 48);
PVRDMA_ABI_FIELD(CreateBindRequest, mtu, 16, 4);
PVRDMA_ABI_FIELD(CreateBindRequest, vlan, 20, 4);
PVRDMA_ABI_FIELD(CreateBindRequest, index, 24, 4);
PVRDMA_ABI_FIELD(CreateBindRequest, new_gid, 28, 16);
PVRDMA_ABI_FIELD(CreateBindRequest, gid_type, 44, 1);

struct DestroyBindRequest {
  RequestHeader hdr;
  std::uint32_t index;
  Gid dest_gid;
  std::array<std::uint8_t, 4> reserved;
};
PVRDMA_ABI_STRUCT(DestroyBindRequest, 40);
PVRDMA_ABI_FIELD(DestroyBindRequest, index, 16, 4);
PVRDMA_ABI_FIELD(DestroyBindRequest, dest_gid, 20, 16);

}  // namespace pvrdma::abi
