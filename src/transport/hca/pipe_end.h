// PipeEnd: the resources of one end of a pipe: a QP, its CQ, and registered memory, with one slot for each
// receive and each send that can be posted.
//
// make(), connect() and the destructor may sleep. Only the shard calls the other functions (pipe.h).
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
    4096;  // per slot: a piece of a message, or a datagram of the largest MTU
inline constexpr std::size_t kPipeHeadBytes = 8;
inline constexpr std::uint32_t kSlotBytes = kSlotPayload + 256;
static_assert(kSlotBytes >= kPipeHeadBytes + wire::kHeadBytesMax + kSlotPayload);
inline constexpr std::uint32_t kSlotsMax = 256;  // in each direction
inline constexpr std::uint32_t kSlotsMin = 64;

class Pipe;

class PipeEnd final : public Buried, private CqUser {
 public:
  // Makes a QP in state INIT with all receives posted. May sleep. Errors: one sentence.
  static Result<std::unique_ptr<PipeEnd>> make(std::shared_ptr<Nic> nic, std::uint32_t port_mtu);
  ~PipeEnd() override;  // may sleep
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  const PipeEndpoint& here() const { return here_; }
  // Called once; may sleep. The caller has validated `there`. Errors: one sentence.
  Result<void> connect(const verbs::Gid& own, const verbs::Gid& peer, const PipeEndpoint& there);

  // The shard calls the functions below.

  // `pipe` is borrowed; null: completions are reported to nobody.
  void set_user(Pipe* pipe) { pipe_ = pipe; }
  std::uint32_t slots() const { return here_.slots; }
  std::uint32_t peer_slots() const { return peer_slots_; }
  // How the QP is connected. A bulk QP to the same host needs the same parameters.
  const QpConnection& connection() const { return connection_; }
  const std::shared_ptr<Nic>& nic() const { return nic_; }
  std::uint32_t peer_reads() const { return peer_reads_; }
  bool peer_lends_answers() const { return peer_lends_answers_; }
  // Where the device puts received bytes, and where the caller puts bytes to send.
  std::span<std::byte> receive_slot(std::uint32_t slot) { return memory(slot); }
  std::span<std::byte> send_slot(std::uint32_t slot) { return memory(here_.slots + slot); }
  // The completion of a receive has its slot as its id.
  [[nodiscard]] bool post_receive(std::uint32_t slot);
  // The completion of a send has the id kSendBit | `number`.
  static constexpr std::uint64_t kSendBit = 1ULL << 63;
  [[nodiscard]] bool post_send(std::uint32_t slot, std::uint32_t bytes, std::uint64_t number, bool signaled);
  NicCompletionQueue& cq() { return *cq_; }
  // Stops all receiving and sending.
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
