// CompletionQueue: where work requests come back. docs/device.md 4.3-4.6, 5, 6.5, 7.6. Thread: the
// Device's.
//
// poll() reads the ring in guest memory: no allocation, and no system call but the POLL doorbell of an empty
// ring.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "abi/cqe.h"
#include "base/time.h"
#include "driver/context.h"
#include "driver/guest_ram.h"
#include "driver/page_directory.h"
#include "driver/ring.h"

namespace pvrdma::driver {

struct WorkCompletion {
  std::uint64_t wr_id = 0;
  abi::CompletionStatus status{};
  abi::CompletionOpcode opcode{};  // only reliable with kSuccess
  std::uint32_t qpn = 0;           // of the local QP
  std::uint32_t byte_len = 0;
  std::uint32_t immediate = 0;    // host order, with abi::kWcWithImm
  std::uint32_t invalidated = 0;  // rkey, with abi::kWcWithInvalidate
  std::uint32_t src_qpn = 0;      // datagrams: the sender's
  std::uint32_t flags = 0;        // abi::WcFlag bits
  std::uint32_t vendor_error = 0;
  abi::NetworkHdrType network{};  // with abi::kWcWithNetworkHdrType
  std::uint16_t pkey_index = 0;
  std::uint8_t service_level = 0;
  std::uint8_t port_num = 0;

  bool ok() const { return status == abi::CompletionStatus::kSuccess; }
};

class CompletionQueue {
 public:
  // Room for at least `entries` completions (rounded up to a power of two). `context` is borrowed and
  // outlives it.
  static Result<std::unique_ptr<CompletionQueue>> create(Context& context, std::uint32_t entries,
                                                         Placement placement = Placement::kScattered);

  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // DESTROY_CQ; the destructor does it too and drops the result. Idempotent. EBUSY while QPs use it.
  Result<> destroy();

  enum class WhenEmpty { kAskDevice, kReturn };  // kAskDevice: write POLL and look once more, as Linux does

  // Takes the oldest completions, at most out.size(); returns how many. 0 for good when fault() is not kNone.
  std::size_t poll(std::span<WorkCompletion> out, WhenEmpty when_empty = WhenEmpty::kAskDevice);

  // Why a consumer is stuck on this queue: both are the device's bugs.
  enum class Fault { kNone, kInvalidIndex, kUnknownQp };
  Fault fault() const { return fault_; }

  enum class Solicited { kAny, kOnly };
  // Asks for one event when the next (solicited or failed) completion arrives. Poll once more afterwards:
  // what came before raises none.
  Result<> arm(Solicited which = Solicited::kAny);

  // Waits for an event of this queue, at most `timeout`, and takes it. Events of other queues are kept for
  // them.
  bool wait(Duration timeout);

  // Events that arrived and were not taken by wait() or this.
  std::uint64_t take_events();

  // Drops the completions of a QP that is gone or was reset, as the driver must.
  void purge(std::uint32_t qp_handle);

  Context& context() const { return context_; }
  std::uint32_t handle() const { return handle_; }
  std::uint32_t entries() const { return ring_.count(); }
  const ConsumerRing& ring() const { return ring_; }  // for drivers that misbehave on purpose

  void notified() { ++events_; }  // Device only

 private:
  CompletionQueue(Context& context, std::uint32_t handle, std::uint32_t entries,
                  std::unique_ptr<Buffer> pages, std::unique_ptr<PageDirectory> directory);
  std::size_t take(std::span<WorkCompletion> out);

  Context& context_;
  std::uint32_t handle_;
  std::unique_ptr<Buffer> pages_;  // state page, then the ring
  std::unique_ptr<PageDirectory> directory_;
  ConsumerRing ring_;
  std::uint64_t events_ = 0;
  Fault fault_ = Fault::kNone;
  bool alive_ = true;
};

}  // namespace pvrdma::driver
