#include "transport/hca/bulk_end.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "base/log.h"
#include "base/time.h"
#include "transport/hca/introduction.h"

namespace pvrdma::transport::hca {
namespace {

// A hardware device flushes a QP in less than a millisecond; Soft-RoCE takes tens of milliseconds.
constexpr Duration kFlushMax = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<BulkEnd>> BulkEnd::make(std::shared_ptr<GuestDomain> domain, std::uint32_t reads) {
  Nic& nic = *domain->nic;
  const NicLimits limits = nic.limits();
  const std::uint32_t posted = std::min({kPostedReadsMax, limits.work_requests, limits.cqes});
  std::unique_ptr<BulkEnd> end(new BulkEnd(std::move(domain), posted));
  auto cq = nic.make_cq(posted, *end);
  if (!cq) return Failure(std::move(cq).error());
  end->cq_ = *std::move(cq);
  auto qp =
      nic.make_qp(*end->cq_, {.sends = posted, .receives = 1, .reads = reads}, end->domain_->domain.get());
  if (!qp) return Failure(std::move(qp).error());
  end->qp_ = *std::move(qp);
  end->here_ = {.qpn = end->qp_->qpn(), .psn = std::random_device()() & kMask24, .reads = reads};
  end->cq_->arm();
  return end;
}

BulkEnd::~BulkEnd() {
  qp_.reset();
  cq_.reset();
}

Result<void> BulkEnd::connect(const QpConnection& pipe, const BulkEndpoint& there) {
  QpConnection connection = pipe;
  connection.peer_qpn = there.qpn;
  connection.send_psn = here_.psn;
  connection.receive_psn = there.psn;
  connection.reads = std::min(here_.reads, there.reads);
  return qp_->connect(connection);
}

bool BulkEnd::post_read(std::uint64_t id, const RegisteredSpan& into, std::uint64_t address,
                        std::uint32_t rkey) {
  if (!qp_->post_read(id, into, address, rkey)) return false;
  ++posted_;
  return true;
}

std::optional<std::size_t> BulkEnd::poll(std::span<NicCompletion> into) {
  const auto count = cq_->poll(into);
  if (count) posted_ -= static_cast<std::uint32_t>(*count);
  return count;
}

bool BulkEnd::stop() {
  qp_->fail();
  const SteadyClock clock;
  const Instant until = clock.now() + kFlushMax;
  std::array<NicCompletion, 32> flushed;
  while (posted_ != 0) {
    const auto count = poll(flushed);
    if (!count) return true;  // the device is gone and can no longer access memory
    if (*count == 0 && clock.now() >= until) {
      log::error("hca: RDMA device {} does not flush a QP", domain_->nic->name());
      return false;
    }
  }
  return true;
}

}  // namespace pvrdma::transport::hca
