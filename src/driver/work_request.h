// Work requests for QueuePair::post_send() and post_recv(), and builders for each kind. docs/device.md 6.
//
// A SendRequest holds the 80 bytes that go into the ring. Posting copies them, followed by the scatter list.
// Scatter lists are borrowed until the post call returns. The memory that they name belongs to the device
// until the completion.
//
// Thread: values. No allocation.
#pragma once

#include <cstdint>
#include <span>

#include "abi/wqe.h"
#include "driver/memory_region.h"

namespace pvrdma::driver {

using Sge = abi::Sge;

struct SendRequest {
  abi::SendWqeHeader wqe{};  // posting fills in num_sge
  std::span<const Sge> sges;
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges;
};

// A place in the peer's memory.
struct Remote {
  std::uint64_t addr = 0;
  std::uint32_t rkey = 0;
};

// Where a datagram is sent.
struct Destination {
  std::uint32_t qpn = 0;
  std::uint32_t qkey = 0;
  abi::AddressVector av{};
};

// The route of a connection or datagram.
struct Route {
  abi::Gid dgid;
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  // 20 bits
  abi::Mac dmac{};
};

inline abi::AddressVector address_vector(const ProtectionDomain& pd, const Route& route) {
  return {.port_pd = pd.handle() | 1u << 24,
          .sl_tclass_flowlabel = std::uint32_t{route.traffic_class} << 20 | (route.flow_label & 0xfffff),
          .dgid = route.dgid,
          .src_path_bits = 0x80,
          .gid_index = route.sgid_index,
          .stat_rate = 0,
          .hop_limit = route.hop_limit,
          .dmac = route.dmac,
          .reserved = {}};
}

// `flags` are abi::SendFlag bits. Without kSendSignaled, a successful request makes no completion, unless the
// QP signals all.
namespace wr {

inline constexpr std::uint32_t kSignaled = abi::kSendSignaled;

inline SendRequest plain(abi::Opcode opcode, std::uint64_t wr_id, std::span<const Sge> sges,
                         std::uint32_t flags) {
  SendRequest request;
  request.wqe.wr_id = wr_id;
  request.wqe.opcode = static_cast<std::uint32_t>(opcode);
  request.wqe.send_flags = flags;
  request.sges = sges;
  return request;
}

inline SendRequest send(std::uint64_t wr_id, std::span<const Sge> sges, std::uint32_t flags = kSignaled) {
  return plain(abi::Opcode::kSend, wr_id, sges, flags);
}

// `immediate` is in host order and arrives as the same number.
inline SendRequest send_imm(std::uint64_t wr_id, std::span<const Sge> sges, std::uint32_t immediate,
                            std::uint32_t flags = kSignaled) {
  SendRequest request = plain(abi::Opcode::kSendWithImm, wr_id, sges, flags);
  request.wqe.ex = abi::Be32::from_host(immediate);
  return request;
}

// Kernel QPs only: also invalidates `rkey` at the receiver.
inline SendRequest send_inv(std::uint64_t wr_id, std::span<const Sge> sges, std::uint32_t rkey,
                            std::uint32_t flags = kSignaled) {
  SendRequest request = plain(abi::Opcode::kSendWithInv, wr_id, sges, flags);
  request.wqe.ex.raw = rkey;
  return request;
}

inline SendRequest rdma(abi::Opcode opcode, std::uint64_t wr_id, std::span<const Sge> sges, Remote remote,
                        std::uint32_t flags) {
  SendRequest request = plain(opcode, wr_id, sges, flags);
  request.wqe.set_form(abi::RdmaFields{.remote_addr = remote.addr, .rkey = remote.rkey});
  return request;
}

inline SendRequest write(std::uint64_t wr_id, std::span<const Sge> sges, Remote remote,
                         std::uint32_t flags = kSignaled) {
  return rdma(abi::Opcode::kRdmaWrite, wr_id, sges, remote, flags);
}

inline SendRequest write_imm(std::uint64_t wr_id, std::span<const Sge> sges, Remote remote,
                             std::uint32_t immediate, std::uint32_t flags = kSignaled) {
  SendRequest request = rdma(abi::Opcode::kRdmaWriteWithImm, wr_id, sges, remote, flags);
  request.wqe.ex = abi::Be32::from_host(immediate);
  return request;
}

inline SendRequest read(std::uint64_t wr_id, std::span<const Sge> sges, Remote remote,
                        std::uint32_t flags = kSignaled) {
  return rdma(abi::Opcode::kRdmaRead, wr_id, sges, remote, flags);
}

// `sges` receives the old value, 8 bytes.
inline SendRequest compare_swap(std::uint64_t wr_id, std::span<const Sge> sges, Remote remote,
                                std::uint64_t compare, std::uint64_t swap, std::uint32_t flags = kSignaled) {
  SendRequest request = plain(abi::Opcode::kAtomicCmpAndSwp, wr_id, sges, flags);
  request.wqe.set_form(abi::AtomicFields{
      .remote_addr = remote.addr, .compare_add = compare, .swap = swap, .rkey = remote.rkey});
  return request;
}

inline SendRequest fetch_add(std::uint64_t wr_id, std::span<const Sge> sges, Remote remote, std::uint64_t add,
                             std::uint32_t flags = kSignaled) {
  SendRequest request = plain(abi::Opcode::kAtomicFetchAndAdd, wr_id, sges, flags);
  request.wqe.set_form(
      abi::AtomicFields{.remote_addr = remote.addr, .compare_add = add, .rkey = remote.rkey});
  return request;
}

// UD and GSI only.
inline SendRequest send_to(std::uint64_t wr_id, std::span<const Sge> sges, const Destination& to,
                           std::uint32_t flags = kSignaled) {
  SendRequest request = plain(abi::Opcode::kSend, wr_id, sges, flags);
  request.wqe.set_form(abi::UdFields{.remote_qpn = to.qpn, .remote_qkey = to.qkey, .av = to.av});
  return request;
}

inline SendRequest send_imm_to(std::uint64_t wr_id, std::span<const Sge> sges, const Destination& to,
                               std::uint32_t immediate, std::uint32_t flags = kSignaled) {
  SendRequest request = send_to(wr_id, sges, to, flags);
  request.wqe.opcode = static_cast<std::uint32_t>(abi::Opcode::kSendWithImm);
  request.wqe.ex = abi::Be32::from_host(immediate);
  return request;
}

// Kernel QPs only: makes the pages of `region`'s list accessible with its current key, at addresses from
// `iova_start` on.
inline SendRequest fast_register(std::uint64_t wr_id, const MemoryRegion& region, std::uint64_t iova_start,
                                 std::uint32_t length, std::uint32_t access,
                                 std::uint32_t flags = kSignaled) {
  SendRequest request = plain(abi::Opcode::kFastRegMr, wr_id, {}, flags);
  request.wqe.set_form(abi::FastRegFields{.iova_start = iova_start,
                                          .pl_pdir_dma = region.page_list().value,
                                          .page_shift = 12,
                                          .page_list_len = region.page_list_length(),
                                          .length = length,
                                          .access_flags = access,
                                          .rkey = region.rkey()});
  return request;
}

// Kernel QPs only.
inline SendRequest local_invalidate(std::uint64_t wr_id, std::uint32_t key, std::uint32_t flags = kSignaled) {
  SendRequest request = plain(abi::Opcode::kLocalInv, wr_id, {}, flags);
  request.wqe.ex.raw = key;
  return request;
}

}  // namespace wr
}  // namespace pvrdma::driver
