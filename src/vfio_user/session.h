// Session: one client of a device, from its socket's first byte to its last.
//
// It reads messages, calls the Handler in their order and answers each one. A message with a wrong value gets
// an errno reply; bytes that cannot be a message end the session. A burst of expensive messages is cut after
// kBurstTime, and the rest waits for the owner's next turn.
//
// It also sends requests to the client. At most one of them is pending at the socket, and at most
// RequestTable::kMaxUnderWay wait for their replies. While the socket has not taken a reply of ours, commands
// wait, but the session still reads replies to its requests. Otherwise it would deadlock with a client that
// writes such a reply before it reads.
//
// Thread: owned by the thread that drives it (the shard). Never blocks. Source: docs/device.md section 8
// (reply rules 8.1, region info 8.4, interrupts 8.6).
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

// What a session may share with earlier and later sessions of the same device. All members are optional.
struct SessionSurroundings {
  std::shared_ptr<ReaperQueue> queue;  // closes the client's descriptors; null: they are closed in place
  const Clock* clock = nullptr;        // borrowed; null: the system's clock
  log::LogLimiter* log = nullptr;      // borrowed; null: every line is written
  // Called from run() when the socket has taken a pending request, so that the next one may be made.
  std::function<void()> request_room;
};

class Session {
 public:
  // The time limit of one run(), unless a single message takes longer. A burst of doorbells needs far less.
  static constexpr Duration kBurstTime = std::chrono::microseconds(200);
  // The time limit of a request to the client: QEMU waits as long for us (docs/device.md 8.9).
  static constexpr Duration kRequestTimeLimit = std::chrono::seconds(5);

  // `socket` is connected and O_NONBLOCK. `handler` is borrowed. Log lines contain `name`.
  Session(ClientFd socket, Handler& handler, std::string name, const SessionSurroundings& surroundings = {});

  int fd() const { return socket_.fd(); }

  // A reply or a request is waiting for the socket to take it.
  bool wants_write() const { return socket_.output_pending(); }

  // False while a command waits until the reply to an earlier one has left.
  bool wants_read() const { return !command_waits_ || !socket_.output_pending(Exchange::kOfClient); }

  // Whether received messages wait for the next run(), even if the socket is not readable.
  bool has_more() const {
    return cut_short_ || (command_waits_ && !socket_.output_pending(Exchange::kOfClient));
  }

  // VERSION was agreed on: Handler::connected() was called.
  bool established() const { return established_; }

  // Sends pending bytes. If no received input is left, receives once (at most MessageSocket::kBurstBytes, or
  // the rest of one message). Then executes complete messages for at most kBurstTime. Returns true if there
  // was work. An error ends the session (code 0: the client closed it in good order), and the owner tells the
  // handler.
  Result<bool> run();

  // True from VERSION on, while no other request is pending (request_room). A request with a reply also needs
  // a place in the table.
  bool can_request() const { return established_ && !socket_.output_pending(Exchange::kOfServer); }

  // DMA_READ and DMA_WRITE. `done` is called from run() or expire_requests(), after kRequestTimeLimit at the
  // latest, unless take_requests() comes first. On an error `done` is not called: ENOTCONN (before VERSION),
  // EAGAIN (not now), EINVAL (no bytes, or a range that wraps), EMSGSIZE (more than max_request_bytes()). If
  // the socket fails, the next run() ends the session. Throws std::bad_alloc before anything is sent.
  Result<void> dma_read(std::uint64_t address, std::uint32_t size, RequestDone done);
  Result<void> dma_write(std::uint64_t address, std::span<const std::byte> data, RequestDone done);
  // The result is not reported. The client executes messages in order, also these.
  Result<void> dma_write_posted(std::uint64_t address, std::span<const std::byte> data);
  std::uint32_t max_request_bytes() const { return max_request_bytes_; }

  Instant next_deadline() const { return requests_.next_deadline(); }
  void expire_requests(Instant now) { requests_.expire(now); }
  // Takes the outstanding requests out of an ended session. The owner must end them.
  RequestTable take_requests() { return std::exchange(requests_, RequestTable{}); }

  // The session's state, besides its socket and held_fds(). Call it between two runs. Each error is a
  // sentence: ENOTCONN (before VERSION), EBUSY (the client leads a migration, or has writes logged).
  Result<SavedSession> save() const;
  std::span<const ClientFd> held_fds() const { return socket_.held_fds(); }
  // Continues the saved session with the descriptors of its held_fds(), and tells the handler that a client
  // is connected. Only for a session that has received and sent nothing. Error, after which the session is
  // unusable: EINVAL.
  Result<void> restore(const SavedSession& saved, std::span<ClientFd> held);

  // The client sees the end of the stream now; the socket may be closed later.
  void shut_down() { socket_.shut_down(); }

 private:
  // An error is the reason why a message ended the session.
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
  bool command_waits_ = false;    // until the reply before it has left
  bool request_pending_ = false;  // as run() last found it
  bool warned_of_posted_write_ = false;
  std::vector<RegionInfo> regions_;        // asked once, at VERSION
  std::vector<std::uint32_t> irq_counts_;  // asked once, at VERSION
};

}  // namespace pvrdma::vfio_user
