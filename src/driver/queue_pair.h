// QueuePair: a send queue and a receive queue, of type RC, UD or GSI. docs/device.md 3.3, 3.4, 4, 6, 7.2-7.4.
//
// post_send() and post_recv() write to rings in guest memory and ring one doorbell per call. They allocate
// nothing, and the doorbell is their only system call. Thread: the Device's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "abi/attributes.h"
#include "driver/completion_queue.h"
#include "driver/guest_ram.h"
#include "driver/page_directory.h"
#include "driver/posting.h"
#include "driver/protection_domain.h"
#include "driver/ring.h"
#include "driver/shared_receive_queue.h"
#include "driver/work_request.h"

namespace pvrdma::driver {

enum class Signaling { kRequested, kAll };  // kAll: every send request completes with a WorkCompletion

struct QpOptions {
  abi::QpType type = abi::QpType::kRc;
  CompletionQueue* send_cq = nullptr;  // borrowed, outlives the QP
  CompletionQueue* recv_cq = nullptr;  // borrowed, outlives the QP; may be the same
  SharedReceiveQueue* srq = nullptr;   // borrowed; supplies receive requests, so max_recv_* are ignored
  std::uint32_t max_send_wr = 64;      // rounded up to powers of two
  std::uint32_t max_recv_wr = 64;
  std::uint32_t max_send_sge = 1;  // rounded up for kernel QPs
  std::uint32_t max_recv_sge = 1;
  Signaling signaling = Signaling::kRequested;
  Placement placement = Placement::kScattered;
};

// Attributes for RESET -> INIT.
struct InitAttributes {
  std::uint32_t access = 0;  // RC: what the peer may do, abi::AccessFlag bits
  std::uint32_t qkey = 0;    // UD and GSI
};

// Attributes for INIT -> RTR of an RC QP.
struct RtrAttributes {
  std::uint32_t dest_qpn = 0;
  Route route;               // to the peer's GID
  std::uint32_t rq_psn = 0;  // the peer's sq_psn, 24 bits
  abi::Mtu path_mtu = abi::Mtu::k1024;
  std::uint8_t max_dest_rd_atomic = 16;
  std::uint8_t min_rnr_timer = 12;  // IB encoding: 12 = 0.64 ms
};

// Attributes for RTR -> RTS of an RC QP.
struct RtsAttributes {
  std::uint32_t sq_psn = 0;   // 24 bits
  std::uint8_t timeout = 14;  // at least 4.096 us * 2^timeout; 0 = for ever
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;  // 7 = for ever
  std::uint8_t max_rd_atomic = 16;
};

class QueuePair {
 public:
  // Makes a QP in RESET. `pd` is borrowed and outlives the QP.
  static Result<std::unique_ptr<QueuePair>> create(ProtectionDomain& pd, const QpOptions& options);

  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // Sends DESTROY_QP and drops the QP's completions. The destructor does so too and ignores the result.
  // Idempotent.
  Result<> destroy();

  // State changes. Each sends the attributes that the QP's type needs, with the masks that Linux uses.
  Result<> to_init(const InitAttributes& attributes);
  Result<> to_rtr(const RtrAttributes& attributes);  // RC
  Result<> to_rtr();                                 // UD, GSI
  Result<> to_rts(const RtsAttributes& attributes);  // RC
  Result<> to_rts(std::uint32_t sq_psn);             // UD, GSI
  Result<> to_sqd();                                 // SQ_DRAINED follows when the running requests are done
  Result<> sqd_to_rts();
  Result<> to_error();
  Result<> to_reset();  // also drops the QP's completions and empties its rings

  // Sends any MODIFY_QP. `mask` of abi::QpAttrBit says which fields of `attributes` are valid.
  Result<> modify(std::uint32_t mask, const abi::QpAttr& attributes);

  Result<abi::QpAttr> query();

  // Each queues requests until one fails, then rings one doorbell if it queued any.
  Posted post_send(std::span<const SendRequest> requests, Doorbell doorbell = Doorbell::kRing);
  Posted post_send(const SendRequest& request) { return post_send(std::span(&request, 1)); }
  Posted post_recv(std::span<const ReceiveRequest> requests, Doorbell doorbell = Doorbell::kRing);
  Posted post_recv(const ReceiveRequest& request) { return post_recv(std::span(&request, 1)); }

  std::uint32_t qpn() const { return qpn_; }
  std::uint32_t handle() const { return handle_; }
  abi::QpType type() const { return type_; }
  // The last state that was set. The device may have gone to ERR since.
  abi::QpState state() const { return state_; }

  // For drivers that misbehave on purpose.
  const WorkRing& send_ring() const { return send_ring_; }
  const WorkRing& recv_ring() const { return recv_ring_; }
  Result<> ring_doorbell(std::uint32_t action_bits);

 private:
  struct Geometry;
  QueuePair(ProtectionDomain& pd, const QpOptions& options, std::unique_ptr<Buffer> send_pages,
            std::unique_ptr<Buffer> recv_pages, std::unique_ptr<PageDirectory> directory, WorkRing send_ring,
            WorkRing recv_ring);
  static Geometry geometry_of(const Context& context, const QpOptions& options);
  Result<> create_on_device(const Geometry& geometry, const QpOptions& options);
  void forget_completions();

  ProtectionDomain& pd_;
  CompletionQueue& send_cq_;
  CompletionQueue& recv_cq_;
  bool has_srq_;
  abi::QpType type_;
  std::unique_ptr<Buffer> send_pages_;  // the state page, then the send ring
  std::unique_ptr<Buffer> recv_pages_;  // null with an SRQ
  std::unique_ptr<PageDirectory> directory_;
  WorkRing send_ring_;
  WorkRing recv_ring_;
  std::uint32_t max_send_sge_;
  std::uint32_t max_recv_sge_;
  std::uint32_t qpn_ = 0;
  std::uint32_t handle_ = 0;
  abi::QpState state_ = abi::QpState::kReset;
  bool alive_ = false;
};

}  // namespace pvrdma::driver
