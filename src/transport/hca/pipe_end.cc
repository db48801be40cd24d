#include "transport/hca/pipe_end.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <random>
#include <utility>

#include "transport/hca/pipe.h"

namespace pvrdma::transport::hca {
PipeEnd::PipeEnd(std::shared_ptr<Nic> nic, std::uint32_t slots)
    : nic_(std::move(nic)), memory_(std::make_unique<std::byte[]>(std::size_t{2} * slots * kSlotBytes)) {
  here_.slots = slots;
}

PipeEnd::~PipeEnd() {
  qp_.reset();
  cq_.reset();
  region_.reset();
}

Result<std::unique_ptr<PipeEnd>> PipeEnd::make(std::shared_ptr<Nic> nic, std::uint32_t port_mtu) {
  const NicLimits limits = nic->limits();
  const std::uint32_t slots = std::min({kSlotsMax, limits.work_requests, limits.cqes / 2});
  if (slots < kSlotsMin)
    return pvrdma::fail(
        EOPNOTSUPP, fmt::format("RDMA device {} allows {} work requests and {} completions in a queue; a "
                                "pipe needs {} and {}",
                                nic->name(), limits.work_requests, limits.cqes, kSlotsMin, 2 * kSlotsMin));
  std::unique_ptr<PipeEnd> end(new PipeEnd(std::move(nic), slots));
  auto region = end->nic_->register_memory({end->memory_.get(), std::size_t{2} * slots * kSlotBytes},
                                           RemoteAccess::kNone);
  if (!region) return Failure(std::move(region).error());
  end->region_ = *std::move(region);
  auto cq = end->nic_->make_cq(2 * slots, *end);
  if (!cq) return Failure(std::move(cq).error());
  end->cq_ = *std::move(cq);
  auto qp = end->nic_->make_qp(*end->cq_, {.sends = slots, .receives = slots});
  if (!qp) return Failure(std::move(qp).error());
  end->qp_ = *std::move(qp);
  end->here_.qpn = end->qp_->qpn();
  end->here_.psn = std::random_device()() & kMask24;  // random: a peer that guesses it could break the pipe
  end->here_.mtu = port_mtu;
  end->here_.reads = std::min(limits.reads, kReadsMax);
  end->here_.lends_answers = true;
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    if (!end->post_receive(slot))
      return pvrdma::fail(
          ENOBUFS, fmt::format("RDMA device {} refuses receive {} of {}", end->nic_->name(), slot, slots));
  }
  end->cq_->arm();
  return end;
}

Result<void> PipeEnd::connect(const verbs::Gid& own, const verbs::Gid& peer, const PipeEndpoint& there) {
  peer_slots_ = there.slots;
  peer_reads_ = there.reads;
  peer_lends_answers_ = there.lends_answers;
  connection_ = {.own = own,
                 .peer = peer,
                 .peer_qpn = there.qpn,
                 .send_psn = here_.psn,
                 .receive_psn = there.psn,
                 .mtu = std::min(here_.mtu, there.mtu)};
  return qp_->connect(connection_);
}

bool PipeEnd::post_receive(std::uint32_t slot) {
  return qp_->post_receive(slot, place(slot, kSlotBytes));
}

bool PipeEnd::post_send(std::uint32_t slot, std::uint32_t bytes, std::uint64_t number, bool signaled) {
  return qp_->post_send(kSendBit | number, place(here_.slots + slot, bytes), signaled);
}

void PipeEnd::on_completions() {
  if (pipe_ != nullptr) pipe_->run_soon();
}

}  // namespace pvrdma::transport::hca
