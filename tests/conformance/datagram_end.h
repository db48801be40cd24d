// DatagramEnd: a UD QP and the objects that it needs. Thread: one.
#pragma once

#include <memory>

#include "driver/driver.h"
#include "support/must.h"
#include "support/rc_endpoint.h"

namespace pvrdma::conformance {

// A UD QP in RTS with its memory.
struct DatagramEnd {
  static constexpr std::uint32_t kQkey = 0x11223344;
  static constexpr std::uint32_t kDepth = 512;
  static constexpr std::size_t kBytes = 2048 * 1024;

  explicit DatagramEnd(driver::Context& context)
      : pd(test::must(driver::ProtectionDomain::create(context))),
        send_cq(test::must(driver::CompletionQueue::create(pd->context(), kDepth))),
        recv_cq(test::must(driver::CompletionQueue::create(pd->context(), kDepth))),
        buffer(test::must(context.device().ram().allocate(kBytes))),
        mr(test::must(driver::MemoryRegion::of_buffer(*pd, *buffer, abi::kAccessLocalWrite))),
        qp(test::must(driver::QueuePair::create(*pd, {.type = abi::QpType::kUd,
                                                      .send_cq = send_cq.get(),
                                                      .recv_cq = recv_cq.get(),
                                                      .max_send_wr = kDepth,
                                                      .max_recv_wr = kDepth}))) {
    test::must(qp->to_init({.qkey = kQkey}));
    test::must(qp->to_rtr());
    test::must(qp->to_rts(0));
  }

  driver::Destination to(const DatagramEnd& peer, const abi::Gid& gid) const {
    return {.qpn = peer.qp->qpn(),
            .qkey = kQkey,
            .av = driver::address_vector(*pd, {.dgid = gid, .dmac = test::mac_of(gid)})};
  }

  std::unique_ptr<driver::ProtectionDomain> pd;
  std::unique_ptr<driver::CompletionQueue> send_cq;
  std::unique_ptr<driver::CompletionQueue> recv_cq;
  std::unique_ptr<driver::Buffer> buffer;
  std::unique_ptr<driver::MemoryRegion> mr;
  std::unique_ptr<driver::QueuePair> qp;
};

}  // namespace pvrdma::conformance
