// How work requests end: CQEs, flushing, and the transition of a QP to ERR. Reference 6.5, 7.3, 7.6, 7.8.
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "verbs/services.h"

namespace pvrdma::verbs {

class Completions {
 public:
  explicit Completions(Services& services) : services_(services) {}  // borrowed

  // Writes a CQE for `work` if it is signalled or failed. Returns false if the CQ failed, and with it the QP:
  // it gets no more CQEs.
  bool complete_send(QueuePair& qp, const SendWork& work, abi::CompletionStatus status);

  struct Received {
    std::uint64_t wr_id = 0;
    abi::CompletionStatus status{};
    bool with_immediate_write = false;  // opcode "receive of write + imm"
    Extra extra = Extra::kNone;
    bool solicited = false;
    std::uint32_t extra_value = 0;
    std::uint32_t byte_len = 0;
    // UD and GSI:
    std::uint32_t src_qpn = 0;
    bool has_grh = false;
    std::uint8_t service_level = 0;
    std::uint8_t network_type = 0;
  };
  bool complete_receive(QueuePair& qp, const Received& received);

  // Moves the QP to ERR when the adapter detects an error: writes one log line and flushes all outstanding
  // work. Raises `event` if no CQE tells the guest.
  void fail_qp(QueuePair& qp, std::string_view why, std::optional<abi::EventType> event = std::nullopt);

  // Completes outstanding work requests of a QP in ERR (or the send queue of a UD QP in SQE) with status
  // "flushed", at most as many as fit into one turn. Returns true if there is more to flush.
  bool flush(QueuePair& qp);

  // Fails the QP because a guest ring has an invalid index or its page is gone.
  void ring_broken(QueuePair& qp, std::string_view which);

 private:
  bool push(QueuePair& qp, CompletionQueue& cq, const abi::Cqe& cqe, Solicited solicited);
  bool flush_sends(QueuePair& qp, std::uint32_t& budget);
  bool flush_receives(QueuePair& qp, std::uint32_t& budget);

  Services& services_;
};

}  // namespace pvrdma::verbs
