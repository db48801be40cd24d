// PipeEnd: what one end of a pipe is made of: a QP, its CQ, and registered memory in slots, one for each
// receive and each send that can be posted.
//
// Making, connecting and destroying may sleep; the rest is the shard's (pipe.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "transport/hca/hca_services.h"
#include "transport/hca/introduction.h"
#include "transport/hca/nic.h"
#include "transport/wire/format.h"

namespace pvrdma::transport::hca {

inline constexpr std::uint32_t kSlotPayload =
    4096;  // of one message: a piece, or a datagram of the longest MTU
inline constexpr std::size_t kPipeHeadBytes = 8;
inline constexpr std::uint32_t kSlotBytes = kSlotPayload + 256;
static_assert(kSlotBytes >= kPipeHeadBytes + wire::kHeadBytesMax + kSlotPayload);
inline constexpr std::uint32_t kSlotsMax = 256;  // each way
inline constexpr std::uint32_t kSlotsMin = 64;

class Pipe;

class PipeEnd final : public Buried, private CqUser {
 public:
  // A QP in INIT with all its receives posted. May sleep. Errors: one sentence.
  static Result<std::unique_ptr<PipeEnd>> make(std::shared_ptr<Nic> nic, std::uint32_t port_mtu);
  ~PipeEnd() override;  // may sleep
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  const PipeEndpoint& here() const { return here_; }
  // May sleep; once. `there` is checked. Errors: one sentence.
  Result<void> connect(const verbs::Gid& own, const verbs::Gid& peer, const PipeEndpoint& there);

  // What follows: the shard's.

  // Who has it, borrowed; null: nobody any more.
  void set_user(Pipe* pipe) { pipe_ = pipe; }
  std::uint32_t slots() const { return here_.slots; }
  std::uint32_t peer_slots() const { return peer_slots_; }
  // How it is connected: what a bulk QP to the same host needs to know.
  const QpConnection& connection() const { return connection_; }
  const std::shared_ptr<Nic>& nic() const { return nic_; }
  std::uint32_t peer_reads() const { return peer_reads_; }
  bool peer_lends_answers() const { return peer_lends_answers_; }
  // Where received bytes are, and where what is sent is put.
  std::span<std::byte> receive_slot(std::uint32_t slot) { return memory(slot); }
  std::span<std::byte> send_slot(std::uint32_t slot) { return memory(here_.slots + slot); }
  // A completion of a receive has the id of its slot.
  [[nodiscard]] bool post_receive(std::uint32_t slot);
  // The completion of a send has the id kSendBit | `number`.
  static constexpr std::uint64_t kSendBit = 1ULL << 63;
  [[nodiscard]] bool post_send(std::uint32_t slot, std::uint32_t bytes, std::uint64_t number, bool signaled);
  NicCompletionQueue& cq() { return *cq_; }
  // Nothing is received or sent any more.
  void fail() { qp_->fail(); }

 private:
  PipeEnd(std::shared_ptr<Nic> nic, std::uint32_t slots);
  std::span<std::byte> memory(std::uint32_t slot) {
    return {memory_.get() + std::size_t{slot} * kSlotBytes, kSlotBytes};
  }
  RegisteredSpan place(std::uint32_t slot, std::uint32_t bytes) {
    return {memory(slot).data(), bytes, region_->lkey()};
  }
  void on_completions() override;

  const std::shared_ptr<Nic> nic_;
  const std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<NicMemoryRegion> region_;
  std::unique_ptr<NicCompletionQueue> cq_;
  std::unique_ptr<NicQueuePair> qp_;
  PipeEndpoint here_;
  std::uint32_t peer_slots_ = 0;
  std::uint32_t peer_reads_ = 0;
  bool peer_lends_answers_ = false;
  QpConnection connection_;
  Pipe* pipe_ = nullptr;
};

}  // namespace pvrdma::transport::hca
