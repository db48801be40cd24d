// SharedReceiveQueue: receive requests that several QPs share. User contexts only. docs/device.md 4.4, 7.7.
// Thread: the Device's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "abi/attributes.h"
#include "driver/guest_ram.h"
#include "driver/page_directory.h"
#include "driver/posting.h"
#include "driver/protection_domain.h"
#include "driver/ring.h"
#include "driver/work_request.h"

namespace pvrdma::driver {

struct SrqOptions {
  std::uint32_t max_wr = 64;  // rounded up to a power of two
  std::uint32_t max_sge = 1;
  std::uint32_t limit = 0;  // LIMIT_REACHED fires once when fewer requests are left; 0: never
};

class SharedReceiveQueue {
 public:
  // `pd` is borrowed and outlives the SRQ. Errors: EOPNOTSUPP if the device has no SRQs.
  static Result<std::unique_ptr<SharedReceiveQueue>> create(ProtectionDomain& pd,
                                                            const SrqOptions& options = {});

  ~SharedReceiveQueue();
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;

  // Sends DESTROY_SRQ. The destructor does so too and ignores the result. Idempotent. EBUSY while QPs use it.
  Result<> destroy();

  // Queues requests until one fails, then rings one doorbell if it queued any.
  Posted post_recv(std::span<const ReceiveRequest> requests, Doorbell doorbell = Doorbell::kRing);
  Posted post_recv(const ReceiveRequest& request) { return post_recv(std::span(&request, 1)); }

  Result<> set_limit(std::uint32_t limit);
  Result<abi::SrqAttr> query();

  std::uint32_t handle() const { return handle_; }
  const WorkRing& ring() const { return ring_; }  // for drivers that misbehave on purpose

 private:
  SharedReceiveQueue(ProtectionDomain& pd, std::unique_ptr<Buffer> pages,
                     std::unique_ptr<PageDirectory> directory, WorkRing ring, std::uint32_t max_sge)
      : pd_(pd), pages_(std::move(pages)), directory_(std::move(directory)), ring_(ring), max_sge_(max_sge) {}

  ProtectionDomain& pd_;
  std::unique_ptr<Buffer> pages_;
  std::unique_ptr<PageDirectory> directory_;
  WorkRing ring_;
  std::uint32_t max_sge_;
  std::uint32_t handle_ = 0;
  bool alive_ = false;
};

}  // namespace pvrdma::driver
