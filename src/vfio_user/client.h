// Client: the other end of a vfio-user socket, for the user-space driver and for tests.
//
// Every call sends one request and waits up to `reply_timeout` for its reply. An error's message names the
// request; its code is the server's errno, ETIMEDOUT, EPROTO, or the socket's errno. After a timeout or a
// broken message the stream cannot be trusted. The client then closes the socket, and every later call fails
// with ENOTCONN. region_read() and region_write() take one sendmsg(), one poll() and one recvmsg(), and
// allocate nothing.
//
// The server may send requests of its own (DMA_READ, DMA_WRITE). The client answers them from its
// ClientMemory while a call waits for its reply, and in answer_requests().
//
// Thread: owned by one thread. Blocks. Source: docs/device.md section 8.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "vfio_user/handler.h"
#include "vfio_user/message_socket.h"
#include "vfio_user/protocol.h"

namespace pvrdma::vfio_user {

struct DeviceInfo {
  std::uint32_t region_count = 0;
  std::uint32_t irq_index_count = 0;
  bool resettable = false;
};

struct ClientRegion {
  RegionInfo info;  // always without an fd
  Fd fd;            // map info.mmap_areas from here; empty if the server sent no fd
};

enum class WriteMode {
  kAcknowledged,  // returns when the device has executed the write
  kPosted,        // returns when the write is on its way; a failure is not reported
};

// The client's memory, for a server that accesses it by messages. Results are errno values for the reply; 0
// means success. The client checks only that a range has 1 byte to 1 MiB. An implementation must not call the
// client.
class ClientMemory {
 public:
  virtual ~ClientMemory() = default;
  virtual int read(std::uint64_t address, std::span<std::byte> out) = 0;
  virtual int write(std::uint64_t address, std::span<const std::byte> data) = 0;
};

class Client {
 public:
  static constexpr Duration kDefaultReplyTimeout = std::chrono::seconds(5);

  // Connects to the server's socket and negotiates the version. `reply_timeout` is at least a millisecond.
  static Result<std::unique_ptr<Client>> connect(const std::string& path,
                                                 Duration reply_timeout = kDefaultReplyTimeout);

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The connected socket, for a caller that waits for the server's end; -1 after the client gave up.
  // Borrowed.
  int socket_fd() const { return socket_ ? socket_->fd() : -1; }

  Result<DeviceInfo> device_info();

  // Repeats the request with a larger reply if the region has a list of mappable areas.
  Result<ClientRegion> region_info(std::uint32_t region);

  // The number of vectors of an irq index.
  Result<std::uint32_t> irq_count(std::uint32_t index);

  // At most max_transfer_bytes() a call, otherwise EMSGSIZE.
  Result<void> region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out);
  Result<void> region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                            WriteMode mode = WriteMode::kAcknowledged);
  std::uint32_t max_transfer_bytes() const { return max_transfer_bytes_; }

  // Lets the device access `fd`, borrowed for the call. -1 announces a range that is not RAM.
  Result<void> dma_map(const DmaMapRequest& request, int fd);
  Result<void> dma_unmap(std::uint64_t iova, std::uint64_t size);
  Result<void> dma_unmap_all();

  // `eventfd` is borrowed for the call; -1 unassigns the vector.
  Result<void> set_irq_eventfd(std::uint32_t index, std::uint32_t vector, int eventfd);
  Result<void> disable_irqs(std::uint32_t index);

  Result<void> reset();

  // Borrowed. Without a memory (null, the default) the client refuses the server's requests with EOPNOTSUPP.
  void set_memory(ClientMemory* memory) { memory_ = memory; }

  // Answers the server's requests that are complete, after waiting up to `patience` for one if there are none
  // yet. Returns how many it answered, including those that the server posted.
  Result<std::size_t> answer_requests(Duration patience);

  // Migration, as a VMM drives it (client_migration.cc). migration_state.h explains states and arcs.
  Result<std::uint64_t> migration_flags();
  Result<MigrationState> migration_state();
  Result<void> set_migration_state(MigrationState state);
  // Returns the number of bytes read; fewer than out.size() means that there are no more now. At most
  // max_transfer_bytes() a call.
  Result<std::size_t> migration_read(std::span<std::byte> out);
  Result<void> migration_write(std::span<const std::byte> data);
  // Returns the page size that the device chose.
  Result<std::uint64_t> start_log(std::uint64_t page_size, std::span<const LogRange> ranges = {});
  Result<void> stop_log();
  // Returns a bitmap with one bit for each page of `page_size` bytes, set if the page was written. Within a
  // byte, the lowest bit is the first page.
  Result<std::vector<std::byte>> log_report(const LogRange& range, std::uint64_t page_size);

 private:
  Client(Fd socket, Duration reply_timeout, const std::string& path);

  Result<void> negotiate();
  Result<void> ready() const;
  std::span<std::byte> request_payload() { return socket_->output().subspan(kHeaderBytes); }
  Result<void> send(Command command, std::size_t payload_bytes, std::uint32_t flags, int fd);
  Result<Message> call(Command command, std::size_t payload_bytes, int fd = -1);
  Result<Message> wait(Command command);
  Result<void> finish_sending(Command command);
  Result<void> answer_request(const Message& request);
  Result<std::span<const std::byte>> feature(std::uint32_t flags, std::size_t reply_bytes,
                                             std::span<const std::byte> data);
  Result<void> call_without_answer(Command command, std::size_t payload_bytes, int fd = -1);
  template <typename Wire>
  Result<Wire> call_for(Command command, const Wire& request);
  Failure give_up(Command command, int code, std::string_view why);

  std::string path_;
  Duration reply_timeout_;
  std::optional<MessageSocket> socket_;  // empty once the stream cannot be trusted
  ClientMemory* memory_ = nullptr;
  std::uint16_t last_id_ = 0;
  std::uint32_t max_transfer_bytes_ = kMaxDataTransferBytes;
};

}  // namespace pvrdma::vfio_user
