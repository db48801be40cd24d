// BulkEnd: one end of a bulk QP. A bulk QP is an RC QP that carries the payload of two VMs. It belongs to the
// protection domain of the local VM and has a CQ of its own. Each end may read the memory that the other end
// registered. Neither end may write to the other.
//
// make(), connect() and the destructor may sleep. Only the shard calls the other functions.
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

// The largest number of READs that one QP has outstanding.
inline constexpr std::uint32_t kPostedReadsMax = 1024;
// The largest number of bulk QPs on one side of one pipe.
inline constexpr std::size_t kBulksMax = 64;
// A QP that was idle for this long may be replaced by a new one.
inline constexpr Duration kBulkIdle = std::chrono::seconds(1);
// The time limit for setting up one QP.
inline constexpr Duration kBulkSetUpMax = std::chrono::seconds(10);
// The largest number of completions that one QP handles in one turn.
inline constexpr std::size_t kCompletionsPerTurn = 64;

class BulkEnd final : public Buried, private CqUser {
 public:
  class User {
   public:
    virtual ~User() = default;
    virtual void on_bulk_completions(BulkEnd& end) = 0;  // called on the shard
  };

  // Makes a QP in state INIT. May sleep. Errors: one sentence.
  static Result<std::unique_ptr<BulkEnd>> make(std::shared_ptr<GuestDomain> domain, std::uint32_t reads);
  ~BulkEnd() override;  // may sleep
  BulkEnd(const BulkEnd&) = delete;
  BulkEnd& operator=(const BulkEnd&) = delete;

  const BulkEndpoint& here() const { return here_; }
  // Connects the QP. `pipe` says how the pipe between the hosts is connected. The caller has validated
  // `there`. May sleep; called once. Errors: one sentence.
  Result<void> connect(const QpConnection& pipe, const BulkEndpoint& there);

  // The shard calls the functions below.

  // `user` is borrowed; null: completions are reported to nobody.
  void set_user(User* user) { user_ = user; }
  std::uint32_t free_reads() const { return posted_max_ - posted_; }
  // False: the device accepts no more work requests.
  [[nodiscard]] bool post_read(std::uint64_t id, const RegisteredSpan& into, std::uint64_t address,
                               std::uint32_t rkey);
  // Like NicCompletionQueue::poll(), for READs.
  std::optional<std::size_t> poll(std::span<NicCompletion> into);
  void arm() { cq_->arm(); }

  // After it returns, the device accesses no memory of this host for the QP. The wait is bounded by the local
  // device alone. False: the device did not flush in time and must be given up.
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
