// RcEndpoint: one end of an RC connection with everything that it needs: PD, CQs, a registered buffer, a QP.
// For tests and benches, over any Bus.
//
// Thread: the Device's. A failure to make one ends the test.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "driver/driver.h"

namespace pvrdma::test {

inline constexpr std::uint32_t kFullAccess =
    abi::kAccessLocalWrite | abi::kAccessRemoteWrite | abi::kAccessRemoteRead | abi::kAccessRemoteAtomic;

// ::ffff:192.168.11.(51 + index), like the demo's VMs.
abi::Gid gid_of(std::uint32_t index);
// The MAC of the adapter with such a GID (adapter_config()).
abi::Mac mac_of(const abi::Gid& gid);

struct EndpointOptions {
  driver::Context* context = nullptr;  // null: the device's kernel context
  std::uint32_t cq_entries = 256;
  std::uint32_t max_send_wr = 64;
  std::uint32_t max_recv_wr = 64;
  std::uint32_t max_send_sge = 4;
  std::uint32_t max_recv_sge = 4;
  std::size_t buffer_bytes = 64 * 1024;
  driver::Placement placement = driver::Placement::kScattered;
  std::uint32_t mr_access = kFullAccess;
  driver::Signaling signaling = driver::Signaling::kRequested;
  driver::SharedReceiveQueue* srq = nullptr;
  driver::ProtectionDomain* pd = nullptr;  // null: it makes one
};

// Of an endpoint that takes little memory: short queues and one SGE for each request.
EndpointOptions small_endpoint(driver::Context& context);

struct ConnectOptions {
  std::uint32_t access = kFullAccess;  // QP access flags at both ends
  std::uint8_t timeout = 14;           // 268 ms
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;  // 10 us
  std::uint8_t max_rd_atomic = 16;
  std::uint8_t max_dest_rd_atomic = 16;
  std::uint32_t first_psn = 0xff'fffe;  // so that PSNs wrap soon
  abi::Mtu path_mtu = abi::Mtu::k1024;
};

class RcEndpoint {
 public:
  // `device` is borrowed and outlives the endpoint. Its GID `gid` is bound at table index `sgid_index`.
  RcEndpoint(driver::Device& device, const abi::Gid& gid, const EndpointOptions& options = {},
             std::uint8_t sgid_index = 0);

  // Connects to a QP: RESET -> INIT -> RTR -> RTS.
  Result<> connect_to(const abi::Gid& gid, std::uint32_t qpn, const ConnectOptions& options = {});

  // An SGE in the buffer, and the address and rkey with which a peer reaches the same place.
  driver::Sge sge(std::size_t offset, std::uint32_t bytes) const { return mr->sge(offset, bytes); }
  driver::Remote remote(std::size_t offset = 0) const { return {mr->start() + offset, mr->rkey()}; }
  std::byte* bytes(std::size_t offset = 0) const { return buffer->data() + offset; }
  void fill(std::size_t offset, std::size_t count, std::uint8_t seed) const;
  bool holds(std::size_t offset, std::size_t count, std::uint8_t seed) const;

  // Posts with one SGE, or without one if `bytes` is 0.
  driver::Posted recv(std::uint64_t wr_id, std::size_t offset, std::uint32_t bytes);

  driver::Device& device;
  abi::Gid gid;
  std::uint8_t sgid_index;
  std::unique_ptr<driver::ProtectionDomain> own_pd;
  driver::ProtectionDomain& pd;
  std::unique_ptr<driver::CompletionQueue> send_cq;
  std::unique_ptr<driver::CompletionQueue> recv_cq;
  std::unique_ptr<driver::Buffer> buffer;
  std::unique_ptr<driver::MemoryRegion> mr;
  std::unique_ptr<driver::QueuePair> qp;
};

// Connects both ends.
Result<> connect(RcEndpoint& a, RcEndpoint& b, const ConnectOptions& options = {});

}  // namespace pvrdma::test
