// Transfer: the same batch of requests between two connected endpoints, again and again, for benches.
// Thread: that of the requester's device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "driver/driver.h"
#include "support/rc_endpoint.h"

namespace pvrdma::bench {

inline constexpr std::uint32_t kQueueDepth = 256;

// Endpoints for batches of at most kQueueDepth requests.
inline test::EndpointOptions deep_endpoint(std::size_t buffer_bytes, driver::Placement placement) {
  test::EndpointOptions out;
  out.placement = placement;
  out.cq_entries = 2 * kQueueDepth;
  out.max_send_wr = out.max_recv_wr = kQueueDepth;
  out.buffer_bytes = buffer_bytes;
  return out;
}

class Transfer {
 public:
  // From the start of one endpoint's buffer to that of the other one's, or back for reads: `count` requests
  // of one opcode, the last one signalled. The endpoints are borrowed and connected.
  Transfer(const test::RcEndpoint& from, const test::RcEndpoint& to, abi::Opcode opcode, std::uint32_t bytes,
           std::uint32_t count)
      : from_(from), to_(to), source_(from.sge(0, bytes)), target_(to.sge(0, bytes)) {
    const bool is_send = opcode == abi::Opcode::kSend;
    requests_.assign(count, is_send ? driver::wr::send(1, std::span(&source_, 1), 0)
                                    : driver::wr::rdma(opcode, 1, std::span(&source_, 1), to.remote(), 0));
    requests_.back().wqe.send_flags |= driver::wr::kSignaled;
    receives_.assign(is_send ? count : 0, driver::ReceiveRequest{1, std::span(&target_, 1)});
  }
  Transfer(const Transfer&) = delete;  // the requests refer to source_ and target_
  Transfer& operator=(const Transfer&) = delete;

  // Posts the requests with one doorbell, and calls `turn` until the last one has completed.
  template <typename Turn>
  void run(Turn turn) {
    if (!receives_.empty()) PVRDMA_CHECK(to_.qp->post_recv(receives_).ok(), "the receive queue has room");
    PVRDMA_CHECK(from_.qp->post_send(requests_).ok(), "the send queue has room");
    take(*from_.send_cq, 1, turn);
    take(*to_.recv_cq, receives_.size(), turn);
  }

  std::size_t count() const { return requests_.size(); }

 private:
  template <typename Turn>
  void take(driver::CompletionQueue& cq, std::size_t count, Turn turn) {
    while (count != 0) {
      const std::size_t taken = cq.poll(completions_, driver::CompletionQueue::WhenEmpty::kReturn);
      for (std::size_t i = 0; i < taken; ++i) PVRDMA_CHECK(completions_[i].ok(), "nothing fails in a bench");
      if (taken == 0) turn();
      count -= taken;
    }
  }

  const test::RcEndpoint& from_;
  const test::RcEndpoint& to_;
  const driver::Sge source_;
  const driver::Sge target_;
  std::vector<driver::SendRequest> requests_;
  std::vector<driver::ReceiveRequest> receives_;
  std::array<driver::WorkCompletion, kQueueDepth> completions_;
};

}  // namespace pvrdma::bench
