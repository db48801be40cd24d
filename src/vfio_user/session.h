// Session: one client of a device, from its socket's first byte to its last.
//
// Reads messages, calls the Handler in their order and answers each one. What a message says wrongly about
// the device gets an errno reply; what cannot be a message ends the session. A burst of messages that are
// expensive is cut after kBurstTime: the rest waits for the owner's next turn.
//
// Sends requests of its own to the client: at most one message of them is under way to the socket, and at
// most RequestTable::kMaxUnderWay wait for their replies. While a reply of ours is not taken by the socket,
// commands wait, but replies to our requests are read nevertheless: a client that writes such a reply before
// it reads what we send would otherwise wait for us for ever, as we for it.
//
// Thread: owned by the thread that drives it (the shard). Never blocks.
// Source: docs/device.md section 8 (reply rules 8.1, region info 8.4, interrupts 8.6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/client_fd.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "vfio_user/handler.h"
#include "vfio_user/message_socket.h"
#include "vfio_user/migration.h"
#include "vfio_user/protocol.h"
#include "vfio_user/request_table.h"
#include "vfio_user/saved_session.h"

namespace pvrdma::vfio_user {

// What a session may share with those before and after it at the same device. All optional.
struct SessionSurroundings {
  std::shared_ptr<ReaperQueue> queue;  // where the client's descriptors end; none: they are closed in place
  const Clock* clock = nullptr;        // borrowed; none: the system's
  log::LogLimiter* log = nullptr;      // borrowed; none: every line is written
  // Called from run() when a request that was pending has left for the socket: the next one may be made.
  std::function<void()> request_room;
};

class Session {
 public:
  // Of one run(), unless a single message takes longer. Far more than a burst of doorbells needs.
  static constexpr Duration kBurstTime = std::chrono::microseconds(200);
  // Of a request to the client: as long as QEMU waits for us (docs/device.md 8.9).
  static constexpr Duration kRequestTimeLimit = std::chrono::seconds(5);

  // `socket`: connected, O_NONBLOCK. `handler` is borrowed. `name` stands in log lines.
  Session(ClientFd socket, Handler& handler, std::string name, const SessionSurroundings& surroundings = {});

  int fd() const { return socket_.fd(); }

  // A reply or a request is waiting for the socket to take it.
  bool wants_write() const { return socket_.output_pending(); }

  // Not while a command has to wait until the reply to an earlier one has left.
  bool wants_read() const { return !command_waits_ || !socket_.output_pending(Exchange::kOfClient); }

  // Messages that were received wait for the next run(), whatever the socket says.
  bool has_more() const {
    return cut_short_ || (command_waits_ && !socket_.output_pending(Exchange::kOfClient));
  }

  // VERSION was agreed upon: Handler::connected() was called.
  bool established() const { return established_; }

  // Sends what is pending. Receives once (at most MessageSocket::kBurstBytes, or the rest of one message),
  // unless there is something received to go on with, and
  // executes what has become complete, for kBurstTime at most. True if there was something to do. An error
  // ends the session (code 0: the client closed it in good order); the owner tells the handler.
  Result<bool> run();

  // From VERSION on, and while no other request is pending (request_room). Besides, those with a reply need a
  // place in the table.
  bool can_request() const { return established_ && !socket_.output_pending(Exchange::kOfServer); }

  // DMA_READ and DMA_WRITE: `done` is called from run() or expire_requests(), at the latest after
  // kRequestTimeLimit, unless take_requests() comes before. Errors, `done` is not called then: ENOTCONN
  // (before VERSION), EAGAIN (not now), EINVAL (no bytes, or a range that wraps), EMSGSIZE (the client takes
  // max_request_bytes() at once). A socket that fails ends the session at the next run(). Throw
  // std::bad_alloc; nothing was sent then.
  Result<void> dma_read(std::uint64_t address, std::uint32_t size, RequestDone done);
  Result<void> dma_write(std::uint64_t address, std::span<const std::byte> data, RequestDone done);
  // Nobody learns what became of it, except that the client executes what it gets in order.
  Result<void> dma_write_posted(std::uint64_t address, std::span<const std::byte> data);
  std::uint32_t max_request_bytes() const { return max_request_bytes_; }

  Instant next_deadline() const { return requests_.next_deadline(); }
  void expire_requests(Instant now) { requests_.expire(now); }
  // Those whose ends the owner has to tell when the session is over.
  RequestTable take_requests() { return std::exchange(requests_, RequestTable{}); }

  // Between two runs: what the session is besides its socket and held_fds(). Errors, each a sentence:
  // ENOTCONN (before VERSION), EBUSY (the client leads a migration, or has the writes logged).
  Result<SavedSession> save() const;
  std::span<const ClientFd> held_fds() const { return socket_.held_fds(); }
  // A session that has received and sent nothing goes on as the saved one, with what held_fds() was; the
  // handler is told of a client. Error, the session is good for nothing then: EINVAL.
  Result<void> restore(const SavedSession& saved, std::span<ClientFd> held);

  // The client sees the end now; the socket may be closed later.
  void shut_down() { socket_.shut_down(); }

 private:
  // Why a message ended the session; empty: it did not.
  using Verdict = Result<void>;

  Result<bool> send_and_execute();
  Verdict execute_complete_messages();
  Verdict execute(Message& message);
  Verdict take_reply(const Message& message);
  Verdict execute_version(const Message& message);
  void establish(std::uint32_t max_request_bytes);
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

  Verdict reply_bytes(const Message& message, const Decoded<std::size_t>& payload_bytes);
  Verdict refuse(const Message& message, const Refusal& refusal);
  Verdict reply(const Message& message, std::size_t payload_bytes, int fd = -1);
  Verdict reply_result(const Message& message, int result, std::size_t payload_bytes = 0);
  Result<void> check_request(std::uint64_t address, std::size_t size) const;
  void send_request(const wire::Header& header, const wire::DmaAccess& access,
                    std::span<const std::byte> data);
  std::span<std::byte> reply_payload() { return socket_.output().subspan(kHeaderBytes); }

  MessageSocket socket_;
  Handler& handler_;
  std::string name_;
  const Clock& clock_;
  log::LogLimiter* const log_;  // null: every line
  const std::function<void()> request_room_;
  RequestTable requests_;
  Migration migration_;
  std::uint32_t max_request_bytes_ = 0;
  bool established_ = false;
  bool cut_short_ = false;
  bool command_waits_ = false;    // for the reply before it to leave
  bool request_pending_ = false;  // when run() looked last
  bool warned_of_posted_write_ = false;
  std::vector<RegionInfo> regions_;        // asked once, at VERSION
  std::vector<std::uint32_t> irq_counts_;  // likewise
};

}  // namespace pvrdma::vfio_user
