// Requester: the send side of an RC QP. It makes messages from the WQEs of the send queue, and completions
// from the peer's responses.
//
// Invariants: Work requests complete in the order in which they were posted. A request is sent again until it
// is answered or the guest's own retry counts are used up. At most max_rd_atomic reads and atomics are
// unanswered. At most kBytesInFlightMax bytes of sends and writes are unconfirmed, and reads have asked for
// at most as many bytes that have not arrived. No request is sent before an earlier one that waits for a
// fence. IBTA vol. 1, 9.7.
//
// The requester asks the path for room before it changes anything of a request. If the path has no room, the
// QP waits. After the guest's `timeout` it tries again, and after retry_cnt more attempts without room the
// work request fails. A QP that has waited sends about one piece in its next turn, so that many QPs can share
// a narrow path. Thread: shard-owned.
#pragma once

#include "verbs/completion.h"
#include "verbs/payload.h"
#include "verbs/send_wqe.h"
#include "verbs/services.h"

namespace pvrdma::verbs {

class Requester {
 public:
  Requester(Services& services, Completions& completions) : services_(services), completions_(completions) {}

  // Runs one turn: sends at most kWqesPerTurn work requests, and bytes as far as the engine's share allows.
  // Returns true if there may be more to send now.
  bool run(QueuePair& qp, Instant now);

  void on_response(QueuePair& qp, const Response& response, Payload& payload, Instant now);

  // A deadline of the QP has passed: an answer is overdue, or a receiver-not-ready pause is over.
  void on_time(QueuePair& qp, Instant now);

  // Requests in flight to the QP's peer may be lost: everything unanswered goes out again from the first
  // unconfirmed byte and costs no retry. A receiver-not-ready pause goes on.
  void on_path_restored(QueuePair& qp);

  // Like on_path_restored(), when requests stay unanswered for longer than the path's repeat_after(). The
  // guest's own time limit goes on.
  void repeat(QueuePair& qp);

  static constexpr std::uint32_t kBytesInFlightMax = 2 * 1024 * 1024;
  // A QP that has reached kBytesInFlightMax sends again when this much is left in flight: several messages at
  // once, not one for each answer.
  static constexpr std::uint32_t kBytesInFlightLow = kBytesInFlightMax / 2;
  static constexpr std::uint32_t kWqesPerTurn = 64;
  // The longest silence that costs no retry, while the peer's host says that its VM is moving.
  static constexpr Duration kSparedAtMost = std::chrono::seconds(30);

 private:
  enum class Step { kSent, kBlocked, kNoRoom };

  // requester.cc
  Fetched fetch(QueuePair& qp);
  Step send_next(QueuePair& qp, std::int64_t& bytes_left, Instant now);
  bool window_has_room(QueuePair& qp, const SendWork& work) const;
  bool may_begin(const QueuePair& qp, const SendWork& work) const;
  Step send_piece(QueuePair& qp, SendWork& work, std::int64_t& bytes_left, Instant now);
  void execute_local(QueuePair& qp, SendWork& work);
  void fail_locally(QueuePair& qp, SendWork& work, abi::CompletionStatus status);
  void retire(QueuePair& qp);
  void watch(QueuePair& qp, Instant now);
  void watch_path(QueuePair& qp, Instant now);
  void report_drained(QueuePair& qp);

  // requester_answers.cc
  void acknowledge(QueuePair& qp, std::uint32_t position);
  void on_ack(QueuePair& qp, std::uint32_t position, const Response& response, Payload& payload);
  void on_read_data(QueuePair& qp, std::uint32_t position, const Response& response, Payload& payload);
  void on_atomic_result(QueuePair& qp, std::uint32_t position, const Response& response);
  void on_receiver_not_ready(QueuePair& qp, std::uint32_t position, const Response& response, Instant now);
  void on_receiver_ready(QueuePair& qp);
  void on_gap(QueuePair& qp, std::uint32_t position, const Response& response);
  void on_refusal(QueuePair& qp, SendWork& work, abi::CompletionStatus status);
  void answered(QueuePair& qp, SendWork& work);
  void confirm(QueuePair& qp, SendWork& work, std::uint32_t offset);
  void made_progress(QueuePair& qp);
  void reopen_window(QueuePair& qp);
  bool take_retry(QueuePair& qp, std::uint32_t position, std::uint8_t& left);
  bool is_spared(QueuePair& qp, Instant now);
  void time_out(QueuePair& qp, Instant now);
  void rewind(QueuePair& qp, std::uint32_t position);
  void send_again(QueuePair& qp);

  Services& services_;
  Completions& completions_;
};

}  // namespace pvrdma::verbs
