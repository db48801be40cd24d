#include "sim/datagrams.h"

#include <cstring>

#include "support/must.h"

namespace pvrdma::sim {
namespace {

using test::must;

constexpr std::uint32_t kSlotOf = 2048;        // of a receive: 40 bytes of GRH, then the message
constexpr std::uint64_t kSendWrId = 1u << 16;  // receives are numbered below

// The head of a message. The rest of its bytes follow from the seed.
struct Head {
  std::uint32_t seed;
  std::uint32_t bytes;
  std::uint32_t to;    // last byte of the receiver's GID
  std::uint32_t from;  // last byte of the sender's GID
};

std::uint32_t last_byte(const abi::Gid& gid) {
  return gid.raw[15];
}

std::byte body(const Head& head, std::size_t i) {
  return static_cast<std::byte>(head.seed + i * 13);
}

}  // namespace

Datagrams::Datagrams(Random& random, const Vm& vm)
    : random_(random),
      vm_(vm),
      pd_(must(driver::ProtectionDomain::create(*vm.user))),
      cq_(must(driver::CompletionQueue::create(*vm.user, 4 * kBuffers))),
      buffer_(must(vm.device->ram().allocate(2 * kBuffers * kSlotOf))),
      mr_(must(driver::MemoryRegion::of_buffer(*pd_, *buffer_, abi::kAccessLocalWrite))),
      qp_(must(driver::QueuePair::create(*pd_, {.type = abi::QpType::kUd,
                                                .send_cq = cq_.get(),
                                                .recv_cq = cq_.get(),
                                                .max_send_wr = kBuffers,
                                                .max_recv_wr = kBuffers}))) {
  must(qp_->to_init({.qkey = kQkey}));
  must(qp_->to_rtr());
  must(qp_->to_rts(0u));
}

Datagrams::~Datagrams() {
  static_cast<void>(vm_.device->dispatch_notifications());  // needless events, while the CQ exists
}

void Datagrams::send(Datagrams& to) {
  if (sends_out_ == kBuffers) return;
  const std::uint32_t bytes = random_.between(sizeof(Head), kBytesMax);
  const Head head{static_cast<std::uint32_t>(random_.next()), bytes, last_byte(to.vm_.gid),
                  last_byte(vm_.gid)};
  const std::size_t slot = (kBuffers + next_send_) * kSlotOf;  // sends complete in order: the oldest is free
  next_send_ = (next_send_ + 1) % kBuffers;
  std::byte* const out = buffer_->data() + slot;
  std::memcpy(out, &head, sizeof head);
  for (std::size_t i = sizeof head; i < bytes; ++i) out[i] = body(head, i);
  const driver::Sge sge = mr_->sge(slot, bytes);
  const driver::Destination destination{
      .qpn = to.qp_->qpn(), .qkey = kQkey, .av = driver::address_vector(*pd_, {.dgid = to.vm_.gid})};
  require(qp_->post_send(driver::wr::send_to(kSendWrId, std::span(&sge, 1), destination)).ok(),
          "a datagram was not taken");
  ++sends_out_;
}

void Datagrams::post_receive() {
  if (receives_out_ == kBuffers) return;
  const driver::Sge sge = mr_->sge(next_receive_ * kSlotOf, kSlotOf);
  require(qp_->post_recv(driver::ReceiveRequest{next_receive_, std::span(&sge, 1)}).ok(),
          "a receive was not taken");
  next_receive_ = (next_receive_ + 1) % kBuffers;
  ++receives_out_;
}

void Datagrams::poll() {
  std::array<driver::WorkCompletion, 4 * kBuffers> all;
  const std::size_t count = cq_->poll(all);
  for (std::size_t i = 0; i < count; ++i) check(all[i]);
}

void Datagrams::check(const driver::WorkCompletion& done) {
  require(done.ok(),
          "a datagram's work request failed with " + std::to_string(static_cast<int>(done.status)));
  if (done.wr_id == kSendWrId) {
    require(sends_out_ != 0, "more datagrams completed than were sent");
    --sends_out_;
    return;
  }
  const std::uint32_t oldest = (next_receive_ + kBuffers - receives_out_) % kBuffers;
  require(receives_out_ != 0 && done.wr_id == oldest, "receives of datagrams complete out of order");
  --receives_out_;
  ++received_;
  const std::byte* const grh = buffer_->data() + done.wr_id * kSlotOf;
  const std::byte* const at = grh + abi::kGrhBytes;
  Head head;
  std::memcpy(&head, at, sizeof head);
  require(done.byte_len == head.bytes + abi::kGrhBytes && head.to == last_byte(vm_.gid),
          "a datagram arrived elsewhere");
  require(done.flags == abi::kWcGrh, "a datagram's flags are wrong");
  // The last byte of the sender's address, from an IPv4 header (the GIDs are mapped addresses) or from RoCE
  // v1's GRH.
  const bool v1 = vm_.device->caps().gid_types == abi::kGidTypeRocev1;
  const std::byte source = v1 ? grh[8 + 15] : grh[20 + 12 + 3];
  require(static_cast<std::uint32_t>(source) == head.from, "a datagram's GRH names another sender");
  for (std::size_t i = sizeof head; i < head.bytes; ++i) {
    require(at[i] == body(head, i), "a datagram holds the wrong bytes");
  }
}

}  // namespace pvrdma::sim
