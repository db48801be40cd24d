// BulkEnd: one end of a bulk QP: an RC QP for the payload of two VMs, in the domain of the one that is here,
// with a CQ of its own. The peer may read what is registered there; this end may read the same of the peer's.
// Nobody may write.
//
// Making, connecting and destroying may sleep; the rest is the shard's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "transport/hca/bulk_frame.h"
#include "transport/hca/guest_memory.h"
#include "transport/hca/hca_services.h"
#include "transport/hca/nic.h"

namespace pvrdma::transport::hca {

// READs that can be posted and not be done.
inline constexpr std::uint32_t kPostedReadsMax = 1024;
// QPs of one side of one pipe.
inline constexpr std::size_t kBulksMax = 64;
// One that was not used for so long makes room for another.
inline constexpr Duration kBulkIdle = std::chrono::seconds(1);
// How long making one may take.
inline constexpr Duration kBulkSetUpMax = std::chrono::seconds(10);
// Of one QP, in a turn.
inline constexpr std::size_t kCompletionsPerTurn = 64;

class BulkEnd final : public Buried, private CqUser {
 public:
  class User {
   public:
    virtual ~User() = default;
    virtual void on_bulk_completions(BulkEnd& end) = 0;  // on the shard
  };

  // A QP in INIT. May sleep. Errors: one sentence.
  static Result<std::unique_ptr<BulkEnd>> make(std::shared_ptr<GuestDomain> domain, std::uint32_t reads);
  ~BulkEnd() override;  // may sleep
  BulkEnd(const BulkEnd&) = delete;
  BulkEnd& operator=(const BulkEnd&) = delete;

  const BulkEndpoint& here() const { return here_; }
  // `pipe`: how the hosts' pipe is connected. May sleep; once. `there` is checked. Errors: one sentence.
  Result<void> connect(const QpConnection& pipe, const BulkEndpoint& there);

  // What follows: the shard's.

  // Borrowed; null: nobody any more.
  void set_user(User* user) { user_ = user; }
  std::uint32_t free_reads() const { return posted_max_ - posted_; }
  // False: the device takes it no more.
  [[nodiscard]] bool post_read(std::uint64_t id, const RegisteredSpan& into, std::uint64_t address,
                               std::uint32_t rkey);
  // As NicCompletionQueue::poll(), of READs.
  std::optional<std::size_t> poll(std::span<NicCompletion> into);
  void arm() { cq_->arm(); }

  // When it returns, the device neither reads nor writes anything here for the QP. Bounded by this host's own
  // device; false: that has not done what it must, and is no good any more.
  [[nodiscard]] bool stop();

 private:
  BulkEnd(std::shared_ptr<GuestDomain> domain, std::uint32_t posted_max)
      : domain_(std::move(domain)), posted_max_(posted_max) {}
  void on_completions() override {
    if (user_ != nullptr) user_->on_bulk_completions(*this);
  }

  const std::shared_ptr<GuestDomain> domain_;
  const std::uint32_t posted_max_;
  std::unique_ptr<NicCompletionQueue> cq_;
  std::unique_ptr<NicQueuePair> qp_;
  BulkEndpoint here_;
  std::uint32_t posted_ = 0;
  User* user_ = nullptr;
};

}  // namespace pvrdma::transport::hca
