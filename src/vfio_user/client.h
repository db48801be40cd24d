// Client: the other end of a vfio-user socket, for the user-space driver and for tests.
//
// Every call sends one request and waits for its reply, at most `reply_timeout`. Errors are sentences that
// name the request; the code is the server's errno, ETIMEDOUT, EPROTO, or the socket's errno. After a timeout
// or a broken message nothing that arrives could be trusted, so the socket is closed and every later call
// fails with ENOTCONN. region_read and region_write: one sendmsg(), one poll() and one
// recvmsg(), no allocation.
//
// What the server asks for meanwhile (DMA_READ, DMA_WRITE) is answered from the memory it may reach, while a
// call waits for its reply and in answer_requests().
//
// Thread: owned by one thread. Blocks.
// Source: docs/device.md section 8.
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
  RegionInfo info;  // its fd stays -1
  Fd fd;            // where info.mmap_areas are to be mapped from; empty if the server sent none
};

enum class WriteMode {
  kAcknowledged,  // returns when the device has executed the write
  kPosted,        // returns when the write is on its way; nobody learns of a failure
};

// The DMA address space as the server reaches it by messages. Results are errno values for the reply, 0 =
// done. Ranges are not checked, except that they have 1 byte to 1 MiB. Must not call the client back.
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

  Result<DeviceInfo> device_info();

  // Asks again, with more room, where the region has a list of mappable areas.
  Result<ClientRegion> region_info(std::uint32_t region);

  // Number of vectors of an irq index.
  Result<std::uint32_t> irq_count(std::uint32_t index);

  // At most max_transfer_bytes() each (EMSGSIZE).
  Result<void> region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out);
  Result<void> region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                            WriteMode mode = WriteMode::kAcknowledged);
  std::uint32_t max_transfer_bytes() const { return max_transfer_bytes_; }

  // Lets the device reach `fd` (borrowed for the call; -1 = announce a range that is no RAM).
  Result<void> dma_map(const DmaMapRequest& request, int fd);
  Result<void> dma_unmap(std::uint64_t iova, std::uint64_t size);
  Result<void> dma_unmap_all();

  // `eventfd` is borrowed for the call; -1 unassigns the vector.
  Result<void> set_irq_eventfd(std::uint32_t index, std::uint32_t vector, int eventfd);
  Result<void> disable_irqs(std::uint32_t index);

  Result<void> reset();

  // Borrowed; null, as at first: the server's requests are refused with EOPNOTSUPP.
  void set_memory(ClientMemory* memory) { memory_ = memory; }

  // Waits at most `patience` until something comes, unless it is there already, and answers the requests that
  // it completes; how many those are, the posted ones included.
  Result<std::size_t> answer_requests(Duration patience);

  // Migration, as a VMM leads it (client_migration.cc). Of states and arcs: migration_state.h.
  Result<std::uint64_t> migration_flags();
  Result<MigrationState> migration_state();
  Result<void> set_migration_state(MigrationState state);
  // How many bytes there were; fewer than out.size(): no more now. At most max_transfer_bytes() each.
  Result<std::size_t> migration_read(std::span<std::byte> out);
  Result<void> migration_write(std::span<const std::byte> data);
  // The page size that the device chose.
  Result<std::uint64_t> start_log(std::uint64_t page_size, std::span<const LogRange> ranges = {});
  Result<void> stop_log();
  // The bitmap: a bit for each page of `page_size` bytes that was written, the lowest of each byte first.
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
  std::optional<MessageSocket> socket_;  // none once it cannot be trusted any more
  ClientMemory* memory_ = nullptr;
  std::uint16_t last_id_ = 0;
  std::uint32_t max_transfer_bytes_ = kMaxDataTransferBytes;
};

}  // namespace pvrdma::vfio_user
