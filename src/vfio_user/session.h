// Session: one client of a device, from its socket's first byte to its last.
//
// Reads messages, calls the Handler in their order and answers each one. What a message says wrongly about
// the device gets an errno reply; what cannot be a message ends the session.
//
// Thread: owned by the thread that drives it (the shard). Never blocks.
// Source: docs/device.md section 8 (reply rules 8.1, region info 8.4, interrupts 8.6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "vfio_user/handler.h"
#include "vfio_user/message_socket.h"
#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {

class Session {
 public:
  // `socket`: connected, O_NONBLOCK. `handler` is borrowed. `name` stands in log lines.
  Session(Fd socket, Handler& handler, std::string name);

  int fd() const { return socket_.fd(); }

  // A reply is waiting for the socket to take it; until then nothing is read.
  bool wants_write() const { return socket_.output_pending(); }

  // VERSION was agreed upon: Handler::connected() was called.
  bool established() const { return established_; }

  // Receives once (at most MessageSocket::kBurstBytes, or the rest of one message) and executes what has
  // become complete. True if there was something to do. An error ends the session (code 0: the client closed
  // it in good order); the owner tells the handler.
  Result<bool> run();

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
  int assign_irqs(const SetIrqsRequest& request, std::span<Fd> fds);
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
  bool established_ = false;
  bool warned_of_posted_write_ = false;
  std::vector<RegionInfo> regions_;        // asked once, at VERSION
  std::vector<std::uint32_t> irq_counts_;  // likewise
};

}  // namespace pvrdma::vfio_user
