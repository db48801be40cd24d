// Session: one client of a device, from its socket's first byte to its last.
//
// Reads messages, calls the Handler in their order and answers each one. What a message says wrongly about
// the device gets an errno reply; what cannot be a message ends the session. A burst of messages that are
// expensive is cut after kBurstTime: the rest waits for the owner's next turn.
//
// Thread: owned by the thread that drives it (the shard). Never blocks.
// Source: docs/device.md section 8 (reply rules 8.1, region info 8.4, interrupts 8.6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/client_fd.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "vfio_user/handler.h"
#include "vfio_user/message_socket.h"
#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {

// What a session may share with those before and after it at the same device. All optional.
struct SessionSurroundings {
  std::shared_ptr<ReaperQueue> queue;  // where the client's descriptors end; none: they are closed in place
  const Clock* clock = nullptr;        // borrowed; none: the system's
  log::LogLimiter* log = nullptr;      // borrowed; none: every line is written
};

class Session {
 public:
  // Of one run(), unless a single message takes longer. Far more than a burst of doorbells needs.
  static constexpr Duration kBurstTime = std::chrono::microseconds(200);

  // `socket`: connected, O_NONBLOCK. `handler` is borrowed. `name` stands in log lines.
  Session(ClientFd socket, Handler& handler, std::string name, const SessionSurroundings& surroundings = {});

  int fd() const { return socket_.fd(); }

  // A reply is waiting for the socket to take it; until then nothing is read.
  bool wants_write() const { return socket_.output_pending(); }

  // Messages that were received wait for the next run(), whatever the socket says.
  bool has_more() const { return cut_short_; }

  // VERSION was agreed upon: Handler::connected() was called.
  bool established() const { return established_; }

  // Receives once (at most MessageSocket::kBurstBytes, or the rest of one message), unless it has_more(), and
  // executes what has become complete, for kBurstTime at most. True if there was something to do. An error
  // ends the session (code 0: the client closed it in good order); the owner tells the handler.
  Result<bool> run();

  // The client sees the end now; the socket may be closed later.
  void shut_down() { socket_.shut_down(); }

 private:
  // Why a message ended the session; empty: it did not.
  using Verdict = Result<void>;

  Verdict execute_complete_messages();
  Verdict execute(Message& message);
  Verdict execute_version(const Message& message);
  Verdict execute_command(Message& message);
  Verdict dma_map(Message& message);
  Verdict dma_unmap(const Message& message);
  Verdict get_info(const Message& message);
  Verdict get_region_info(const Message& message);
  Verdict get_irq_info(const Message& message);
  Verdict set_irqs(Message& message);
  int assign_irqs(const SetIrqsRequest& request, std::span<ClientFd> fds);
  Verdict region_read(const Message& message);
  Verdict region_write(const Message& message);
  Verdict reset(const Message& message);

  Verdict refuse(const Message& message, const Refusal& refusal);
  Verdict reply(const Message& message, std::size_t payload_bytes, int fd = -1);
  Verdict reply_result(const Message& message, int result, std::size_t payload_bytes = 0);
  std::span<std::byte> reply_payload() { return socket_.output().subspan(kHeaderBytes); }

  MessageSocket socket_;
  Handler& handler_;
  std::string name_;
  const Clock& clock_;
  log::LogLimiter* const log_;  // null: every line
  bool established_ = false;
  bool cut_short_ = false;
  bool warned_of_posted_write_ = false;
  std::vector<RegionInfo> regions_;        // asked once, at VERSION
  std::vector<std::uint32_t> irq_counts_;  // likewise
};

}  // namespace pvrdma::vfio_user
