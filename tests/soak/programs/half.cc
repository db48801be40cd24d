#include "half.h"

#include <array>
#include <fmt/core.h>
#include <utility>

#include "support/must.h"
#include "support/stamped_block.h"

namespace pvrdma::test {
namespace {

// An asker's work requests, in order. An answerer has only the last kind.
constexpr std::uint64_t kWrite = 1;
constexpr std::uint64_t kAtomic = 2;
constexpr std::uint64_t kRead = 3;
constexpr std::uint64_t kSend = 4;

}  // namespace

Half::Half(driver::Device& device, const abi::Gid& gid, std::uint32_t block_bytes)
    : block_bytes_(block_bytes), end_(device, gid, {.buffer_bytes = 2 * std::size_t{block_bytes} + 24}) {}

Result<> Half::join(Role role, const Peer& peer, std::uint8_t timeout) {
  peer_ = peer;
  // The PSNs of both ends wrap soon.
  if (auto done = end_.connect_to(peer.gid, peer.qpn, {.timeout = timeout, .first_psn = 0xff'fff0}); !done) {
    return done;
  }
  role_ = role;
  post_receive();
  if (role == Role::kAsker) begin_round();
  return {};
}

bool Half::poll(bool may_begin) {
  if (!role_ || ended()) return false;
  const bool received = poll_receives();
  const bool sent_some = !ended() && poll_sends();
  if (ended() || *role_ == Role::kAnswerer) return received || sent_some;
  if (!between_rounds_ && next_ == kSend + 1 && echoed_) {
    ++round_;
    between_rounds_ = true;
  }
  if (!between_rounds_ || !may_begin) return received || sent_some;
  begin_round();
  return true;
}

void Half::lose(std::string what) {
  if (!ended()) findings_.lost = std::move(what);
}

void Half::complain(std::string what) {
  if (!ended()) findings_.wrong = fmt::format("QP {}, round {}: {}", end_.qp->qpn(), round_, std::move(what));
}

void Half::check_block(std::size_t at, const char* whose) {
  if (auto wrong = wrong_stamp(end_.bytes(at), block_bytes_, round_, whose)) complain(std::move(*wrong));
}

void Half::post_receive() {
  if (!end_.recv(0, received_at(), 8).ok()) lose("the receive could not be posted");
  if (auto armed = end_.recv_cq->arm(); !armed) lose(armed.error().message);
}

void Half::begin_round() {
  between_rounds_ = false;
  echoed_ = false;
  next_ = kWrite;
  stamp_block(end_.bytes(), block_bytes_, round_);
  store_word(end_.bytes(number_at()), round_);
  const driver::Sge block = end_.sge(0, block_bytes_);
  const driver::Sge old_value = end_.sge(counter_at(), 8);
  const driver::Sge read_back = end_.sge(read_back_at(), block_bytes_);
  const driver::Sge number = end_.sge(number_at(), 8);
  const driver::Remote& there = peer_.buffer;
  const driver::Remote counter{there.addr + counter_at(), there.rkey};
  // The send is fenced: it arrives after the read is done.
  const std::array requests{driver::wr::write(kWrite, {&block, 1}, there),
                            driver::wr::fetch_add(kAtomic, {&old_value, 1}, counter, 1),
                            driver::wr::read(kRead, {&read_back, 1}, there),
                            driver::wr::send(kSend, {&number, 1}, driver::wr::kSignaled | abi::kSendFence)};
  if (!end_.qp->post_send(requests).ok()) lose("a round could not be posted");
}

bool Half::poll_receives() {
  driver::WorkCompletion done;
  bool some = false;
  while (!ended() && end_.recv_cq->poll({&done, 1}, driver::CompletionQueue::WhenEmpty::kReturn) == 1) {
    some = true;
    if (!done.ok()) {
      lose(fmt::format("a receive ended with status {}", static_cast<int>(done.status)));
    } else if (*role_ == Role::kAsker) {
      answered();
    } else {
      asked();
    }
  }
  return some;
}

// The answerer has received a round's number.
void Half::asked() {
  if (const std::uint64_t number = load_word(end_.bytes(received_at())); number != round_) {
    return complain(fmt::format("number {} arrived", number));
  }
  check_block(0, "the block written");
  if (const std::uint64_t counter = load_word(end_.bytes(counter_at())); counter != round_ + 1) {
    complain(fmt::format("the counter is {}, not {}", counter, round_ + 1));
  }
  if (ended()) return;
  post_receive();
  store_word(end_.bytes(number_at()), round_);
  const driver::Sge number = end_.sge(number_at(), 8);
  if (!end_.qp->post_send(driver::wr::send(kSend, {&number, 1})).ok()) lose("an answer could not be posted");
  ++next_;
  ++round_;
}

// The asker's number has come back.
void Half::answered() {
  if (const std::uint64_t number = load_word(end_.bytes(received_at())); number != round_) {
    return complain(fmt::format("the answer has number {}", number));
  }
  if (echoed_) return complain("the answer came twice");
  echoed_ = true;
  post_receive();
}

bool Half::poll_sends() {
  driver::WorkCompletion done;
  bool some = false;
  while (!ended() && end_.send_cq->poll({&done, 1}, driver::CompletionQueue::WhenEmpty::kReturn) == 1) {
    some = true;
    if (done.ok()) {
      sent(done);
    } else {
      lose(fmt::format("work request {} ended with status {}", done.wr_id, static_cast<int>(done.status)));
    }
  }
  return some;
}

void Half::sent(const driver::WorkCompletion& done) {
  if (*role_ == Role::kAnswerer) {
    if (next_ == 0) return complain("an answer was completed twice");
    --next_;
    return;
  }
  if (done.wr_id != next_) {
    return complain(fmt::format("work request {} completed when {} was next", done.wr_id, next_));
  }
  ++next_;
  if (done.wr_id == kRead) check_block(read_back_at(), "the block read back");
  if (done.wr_id != kAtomic) return;
  if (const std::uint64_t old = load_word(end_.bytes(counter_at())); old != round_) {
    complain(fmt::format("the counter was {}", old));
  }
}

}  // namespace pvrdma::test
