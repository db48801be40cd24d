#include "verbs/queue_pair.h"

#include <algorithm>
#include <bit>

namespace pvrdma::verbs {
namespace {

// An idle QP stays below 4 KiB: the window takes what its SGE count leaves of this, at least four work
// requests.
constexpr std::size_t kWindowBytes = 2048;
constexpr std::size_t kWindowSlotsMin = 4;

std::uint32_t window_slots(std::uint32_t max_sge) {
  const std::size_t slot_bytes = sizeof(SendWork) + max_sge * sizeof(abi::Sge);
  return static_cast<std::uint32_t>(std::bit_floor(std::max(kWindowSlotsMin, kWindowBytes / slot_bytes)));
}

}  // namespace

SendWindow::SendWindow(std::uint32_t max_sge)
    : max_sge_(max_sge),
      slots_(window_slots(max_sge)),
      works_(std::make_unique<SendWork[]>(slots_)),
      sges_(std::make_unique<abi::Sge[]>(static_cast<std::size_t>(slots_) * max_sge)) {}

void QueuePair::reset() {
  attributes = QpAttributes{};
  local_gid = Gid{};
  path.close();

  send.ring.resync();
  send.window.clear();
  send.sending = send.window.tail();
  send.next_number = MessageNumber{};
  send.reads_outstanding = 0;
  send.stopped = false;
  send.retries_left = 0;
  send.rnr_retries_left = 0;
  send.path_retries_left = 0;
  send.ack_deadline = Instant::never();
  send.rnr_until = Instant::never();
  send.drained_reported = false;
  send.waits_for_path = false;
  send.window_closed = false;
  send.bytes_in_flight = 0;
  send.read_bytes_in_flight = 0;

  if (receive.queue) receive.queue->reset();
  receive.expected = MessageNumber{};
  receive.progress = 0;
  receive.gap_reported = false;
  receive.holds_receive = false;
  receive.established_reported = false;
  receive.last_wqe_reported = false;
  receive.replays.fill({});
  receive.next_replay = 0;
}

}  // namespace pvrdma::verbs
