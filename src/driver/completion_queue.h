// CompletionQueue: reports completed work requests. docs/device.md 4.3-4.6, 5, 6.5, 7.6. Thread: the
// Device's.
//
// poll() reads the ring in guest memory: it allocates nothing, and its only system call is the POLL doorbell
// when the ring is empty.
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
  abi::CompletionOpcode opcode{};  // valid only with kSuccess
  std::uint32_t qpn = 0;           // of the local QP
  std::uint32_t byte_len = 0;
  std::uint32_t immediate = 0;    // host order, with abi::kWcWithImm
  std::uint32_t invalidated = 0;  // rkey, with abi::kWcWithInvalidate
  std::uint32_t src_qpn = 0;      // datagrams: the sender's QP number
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
  // Has room for at least `entries` completions, rounded up to a power of two. `context` is borrowed and
  // outlives the queue.
  static Result<std::unique_ptr<CompletionQueue>> create(Context& context, std::uint32_t entries,
                                                         Placement placement = Placement::kScattered);

  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Sends DESTROY_CQ. The destructor does so too and ignores the result. Idempotent. EBUSY while QPs use the
  // queue.
  Result<> destroy();

  enum class WhenEmpty { kAskDevice, kReturn };  // kAskDevice: write POLL and look again, as Linux does

  // Takes the oldest completions, at most out.size(), and returns their number. It is always 0 once fault()
  // is not kNone.
  std::size_t poll(std::span<WorkCompletion> out, WhenEmpty when_empty = WhenEmpty::kAskDevice);

  // Why the queue's consumer is stuck. Both are bugs of the device.
  enum class Fault { kNone, kInvalidIndex, kUnknownQp };
  Fault fault() const { return fault_; }

  enum class Solicited { kAny, kOnly };
  // Asks for one event when the next completion arrives (or the next solicited or failed one). Poll once more
  // afterwards: completions that arrived before raise no event.
  Result<> arm(Solicited which = Solicited::kAny);

  // Waits up to `timeout` for an event of this queue and takes it. Events of other queues are kept for them.
  bool wait(Duration timeout);

  // Takes the events that arrived since the last wait() or take_events(), and returns their number.
  std::uint64_t take_events();

  // Drops the completions of a QP that was destroyed or reset, as a driver must.
  void purge(std::uint32_t qp_handle);

  Context& context() const { return context_; }
  std::uint32_t handle() const { return handle_; }
  std::uint32_t entries() const { return ring_.count(); }
  const ConsumerRing& ring() const { return ring_; }  // for drivers that misbehave on purpose

  void notified() { ++events_; }  // called only by Device

 private:
  CompletionQueue(Context& context, std::uint32_t handle, std::uint32_t entries,
                  std::unique_ptr<Buffer> pages, std::unique_ptr<PageDirectory> directory);
  std::size_t take(std::span<WorkCompletion> out);

  Context& context_;
  std::uint32_t handle_;
  std::unique_ptr<Buffer> pages_;  // the state page, then the ring
  std::unique_ptr<PageDirectory> directory_;
  ConsumerRing ring_;
  std::uint64_t events_ = 0;
  Fault fault_ = Fault::kNone;
  bool alive_ = true;
};

}  // namespace pvrdma::driver
