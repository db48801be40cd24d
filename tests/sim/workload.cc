#include "sim/workload.h"

#include <cstring>

namespace pvrdma::sim {
namespace {

using abi::Opcode;

constexpr std::size_t kOutstandingMax = 56;      // below the send queue's 64
constexpr std::uint32_t kBusyBytes = 16 * 1024;  // most requests use the beginning of the exposed area
constexpr std::uint32_t kAtomicWords = 32;

Opcode random_opcode(Random& random) {
  constexpr Opcode kOpcodes[] = {Opcode::kRdmaWrite,       Opcode::kRdmaWriteWithImm, Opcode::kSend,
                                 Opcode::kSendWithImm,     Opcode::kRdmaRead,         Opcode::kRdmaRead,
                                 Opcode::kAtomicCmpAndSwp, Opcode::kAtomicFetchAndAdd};
  return kOpcodes[random.below(std::size(kOpcodes))];
}

Fault random_fault(Random& random, Operation& operation) {
  switch (random.below(5)) {
    case 0:
      return Fault::kBadLkey;
    case 1:
      return Fault::kBadOpcode;
    case 2:
      return operation.is_atomic() ? Fault::kMisaligned : Fault::kBadLkey;
    case 3:
      if (operation.opcode != Opcode::kSend && operation.opcode != Opcode::kSendWithImm)
        return Fault::kBadRkey;
      operation.bytes = kReceiveBytes + 1;
      return Fault::kTooLongForPeer;
    default:
      return operation.opcode == Opcode::kSend || operation.opcode == Opcode::kSendWithImm
                 ? Fault::kBadLkey
                 : Fault::kBeyondRegion;
  }
}

std::uint32_t random_bytes(Random& random, const Operation& operation) {
  const std::uint32_t most = operation.takes_receive() && !operation.is_write() ? kReceiveBytes : kSlotBytes;
  if (operation.is_atomic()) return 8;
  if (random.chance(50)) return 0;
  if (random.chance(500)) return random.between(1, 64);
  if (most == kSlotBytes && random.chance(60)) return random.between(kSlotBytes + 1, kBigSlotBytes);
  return random.between(1, most);
}

void choose_place(Random& random, Operation& operation) {
  if (operation.is_atomic()) {
    operation.remote_offset = 8 * random.below(kAtomicWords);
  } else {
    const std::uint32_t area = operation.bytes > kBusyBytes ? kExposedBytes : kBusyBytes;
    operation.remote_offset = random.below(area - operation.bytes + 1);
  }
}

std::uint32_t flags_of(const Operation& operation) {
  return (operation.signaled ? std::uint32_t{abi::kSendSignaled} : 0u) |
         (operation.fenced ? std::uint32_t{abi::kSendFence} : 0u) |
         (operation.solicited ? std::uint32_t{abi::kSendSolicited} : 0u);
}

driver::SendRequest build(const Operation& operation, std::span<const driver::Sge> sges,
                          driver::Remote remote) {
  namespace wr = driver::wr;
  const std::uint32_t flags = flags_of(operation);
  switch (operation.opcode) {
    case Opcode::kRdmaWrite:
      return wr::write(operation.wr_id, sges, remote, flags);
    case Opcode::kRdmaWriteWithImm:
      return wr::write_imm(operation.wr_id, sges, remote, operation.immediate, flags);
    case Opcode::kSend:
      return wr::send(operation.wr_id, sges, flags);
    case Opcode::kSendWithImm:
      return wr::send_imm(operation.wr_id, sges, operation.immediate, flags);
    case Opcode::kRdmaRead:
      return wr::read(operation.wr_id, sges, remote, flags);
    case Opcode::kAtomicCmpAndSwp:
      return wr::compare_swap(operation.wr_id, sges, remote, operation.compare_add, operation.swap, flags);
    case Opcode::kAtomicFetchAndAdd:
      return wr::fetch_add(operation.wr_id, sges, remote, operation.compare_add, flags);
    default:
      return wr::plain(operation.opcode, operation.wr_id, sges, flags);
  }
}

// Splits the slot's bytes into one to three SGEs.
std::vector<driver::Sge> scatter(Random& random, const test::RcEndpoint& end, std::uint32_t offset,
                                 std::uint32_t bytes) {
  std::vector<driver::Sge> sges;
  while (bytes != 0) {
    const std::uint32_t piece = sges.size() == 2 || random.chance(600) ? bytes : random.between(1, bytes);
    sges.push_back(end.sge(offset, piece));
    offset += piece;
    bytes -= piece;
  }
  return sges;
}

void fill(Random& random, std::span<std::byte> out) {
  while (!out.empty()) {
    const std::uint64_t word = random.next();
    const std::size_t size = std::min(out.size(), sizeof word);
    std::memcpy(out.data(), &word, size);
    out = out.subspan(size);
  }
}

}  // namespace

PostedWork post_request(Random& random, const Mix& mix, Flow& flow, test::RcEndpoint& from,
                        test::RcEndpoint& to, driver::Doorbell doorbell) {
  if (flow.outstanding() >= kOutstandingMax) return {};
  Operation operation{.wr_id = 0, .opcode = random_opcode(random)};
  operation.bytes = random_bytes(random, operation);
  if (random.chance(mix.fault_per_mille)) operation.fault = random_fault(random, operation);
  if (operation.fault != Fault::kNone && operation.bytes < 8) operation.bytes = 8;
  if (!flow.take_slot(operation.bytes, operation.local_offset)) return {};
  choose_place(random, operation);
  operation.wr_id = flow.next_wr_id();
  operation.signaled = random.chance(600);
  operation.solicited = random.chance(200);
  operation.fenced = random.chance(50) || flow.disturbs_a_read(operation);
  operation.immediate = static_cast<std::uint32_t>(random.next());
  operation.compare_add = random.chance(500) ? 0 : random.next();
  operation.swap = random.next();

  const std::span<std::byte> slot(from.bytes(operation.local_offset), operation.bytes);
  fill(random, slot);
  if (operation.is_write() || operation.takes_receive()) operation.data.assign(slot.begin(), slot.end());

  driver::Remote remote = to.remote(operation.remote_offset);
  std::vector<driver::Sge> sges = scatter(random, from, operation.local_offset, operation.bytes);
  switch (operation.fault) {
    case Fault::kBadRkey:
      remote.rkey ^= 1u << 8;
      break;
    case Fault::kBeyondRegion:
      remote.addr = to.remote(kBufferBytes - (operation.is_atomic() ? 0 : 4)).addr;
      break;
    case Fault::kMisaligned:
      remote.addr += 4;
      break;
    case Fault::kBadLkey:
      sges.back().lkey ^= 1u << 8;
      break;
    case Fault::kBadOpcode:
      operation.opcode = Opcode::kMaskedAtomicFetchAndAdd;
      break;
    case Fault::kTooLongForPeer:
    case Fault::kNone:
      break;
  }
  const driver::SendRequest request = build(operation, sges, remote);
  const driver::Posted posted = from.qp->post_send(std::span(&request, 1), doorbell);
  require(posted.count == 1, "a request that fits was not taken");
  const bool faulty = operation.fault != Fault::kNone;
  flow.posted(std::move(operation));
  return {.any = true, .faulty = faulty};
}

void post_marker(Flow& flow, test::RcEndpoint& from, test::RcEndpoint& to) {
  Operation operation{.wr_id = flow.next_wr_id(), .opcode = Opcode::kRdmaWrite};
  require(from.qp->post_send(build(operation, {}, to.remote())).ok(), "the marker was not taken");
  flow.posted(std::move(operation));
}

PostedWork post_receive(Random& random, const Mix& mix, Flow& flow, test::RcEndpoint& to,
                        driver::SharedReceiveQueue* srq) {
  Receive receive{.wr_id = random.next()};
  if (!flow.take_receive_slot(receive)) return {};
  receive.bad = random.chance(mix.bad_receive_per_mille);
  std::vector<driver::Sge> sges = scatter(random, to, receive.offset, kReceiveBytes);
  if (receive.bad) sges.front().lkey ^= 1u << 8;
  const driver::ReceiveRequest request{receive.wr_id, sges};
  const driver::Posted posted = srq != nullptr ? srq->post_recv(request) : to.qp->post_recv(request);
  require(posted.ok(), "a receive that fits was not taken");
  flow.posted(receive);
  return {.any = true, .faulty = receive.bad};
}

}  // namespace pvrdma::sim
