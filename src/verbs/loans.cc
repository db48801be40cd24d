#include "verbs/loans.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"
#include "verbs/sge_list.h"
#include "verbs/wire.h"

namespace pvrdma::verbs {
namespace {

std::span<const abi::Sge> receive_sges(const QueuePair& qp) {
  const ReceiveWork& receive = qp.receive.receive;
  return {receive.sges.data(), receive.sge_count};
}

}  // namespace

void Loans::lend(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges) {
  if (work.lent) return;
  work.lent = true;
  ++qp.loans.lent;
  add_uses(sges);
  update(qp);
}

void Loans::give_back(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges) {
  if (!work.lent) return;
  work.lent = false;
  --qp.loans.lent;
  drop_uses(sges);
  update(qp);
}

void Loans::begin_fetching(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges) {
  ++work.fetches;
  ++qp.loans.fetching;
  lend(qp, work, sges);
}

bool Loans::end_fetching(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges) {
  if (work.fetches == 0) return false;
  --qp.loans.fetching;
  if (--work.fetches == 0) give_back(qp, work, sges);
  return true;
}

bool Loans::may_lend_answer(const QueuePair& qp) {
  return qp.loans.answer_count < QpLoans::kAnswersMax;
}

void Loans::lend_answer(QueuePair& qp, std::uint32_t rkey) {
  PVRDMA_CHECK(may_lend_answer(qp), "the caller has checked may_lend_answer()");
  qp.loans.answers[qp.loans.answer_count++] = rkey;
  mrs_.add_use(rkey);
  update(qp);
}

void Loans::give_answer_back(QueuePair& qp, std::uint32_t rkey) {
  QpLoans& loans = qp.loans;
  const auto lent = std::span(loans.answers).first(loans.answer_count);
  const auto found = std::ranges::find(lent, rkey);
  if (found == lent.end()) return;
  *found = lent.back();
  --loans.answer_count;
  mrs_.drop_use(rkey);
  update(qp);
}

void Loans::begin_placing(QueuePair& qp, const Request& request) {
  QpLoans& loans = qp.loans;
  PVRDMA_CHECK(loans.placing_count < QpLoans::kPlacingsMax, "the caller has checked that there is room");
  const bool is_write = request.op == RequestOp::kWrite;
  loans.placing(loans.placing_count++) = {.number = request.number,
                                          .is_write = is_write,
                                          .is_last = request.is_last(),
                                          .completes = !is_write || request.extra == Extra::kImmediate,
                                          .rkey = request.rkey,
                                          .address = request.remote_addr,
                                          .offset = request.offset,
                                          .bytes = request.bytes};
  if (is_write) {
    mrs_.add_use(request.rkey);
  } else {
    add_uses(receive_sges(qp));
  }
  update(qp);
}

void Loans::end_placing(QueuePair& qp) {
  QpLoans& loans = qp.loans;
  if (loans.placing_count == 0) return;
  if (const Placing& oldest = loans.placing(0); oldest.is_write) {
    mrs_.drop_use(oldest.rkey);
  } else {
    drop_uses(receive_sges(qp));
  }
  loans.first = (loans.first + 1) % QpLoans::kPlacingsMax;
  --loans.placing_count;
  update(qp);
}

bool Loans::may_follow(const QueuePair& qp, const Request& request) {
  const QpLoans& loans = qp.loans;
  if (request.op != RequestOp::kWrite || loans.placing_count == 0 ||
      loans.placing_count == QpLoans::kPlacingsMax)
    return false;
  const Placing& before = loans.placing(loans.placing_count - 1);
  if (before.completes) return false;
  return before.is_last ? request.number == before.number.next() && request.offset == 0
                        : request.number == before.number && request.offset == before.end();
}

void Loans::stop(QueuePair& qp) {
  if (!qp.loans.any()) return;
  wire_.stop(qp.connection());
  forget(qp);
}

void Loans::stop_key(std::uint32_t key) {
  if (mrs_.uses(key) != 0) stop_all();
}

void Loans::stop_region(MrHandle handle) {
  if (mrs_.uses(handle) != 0) stop_all();
}

// Each iteration ends the loans of one QP, so the cost is bounded by the number of loans.
void Loans::stop_all() {
  if (!all_.linked()) return;
  wire_.stop_all();
  while (all_.linked()) forget(*all_.next().owner());
}

void Loans::add_uses(std::span<const abi::Sge> sges) {
  for (const abi::Sge& sge : sges) {
    if (sge.length != 0) mrs_.add_use(sge.lkey);
  }
}

void Loans::drop_uses(std::span<const abi::Sge> sges) {
  for (const abi::Sge& sge : sges) {
    if (sge.length != 0) mrs_.drop_use(sge.lkey);
  }
}

void Loans::mark_again(const QueuePair& qp) const {
  for (std::uint32_t i = 0; i < qp.loans.placing_count; ++i) {
    const Placing& placing = qp.loans.placing(i);
    guestmem::SpanList ignored;
    if (placing.is_write) {
      static_cast<void>(mrs_.resolve(placing.rkey, qp.identity.pd, placing.address + placing.offset,
                                     placing.bytes, {.flag = abi::kAccessRemoteWrite, .remote = true},
                                     ignored));
    } else {
      static_cast<void>(resolve_sges(mrs_, qp.receive.srq != nullptr ? qp.receive.srq->pd() : qp.identity.pd,
                                     receive_sges(qp), placing.offset, placing.bytes,
                                     {.flag = abi::kAccessLocalWrite}, ignored));
    }
  }
}

void Loans::mark_again(const QueuePair& qp, const SendWorkState& work, std::span<const abi::Sge> sges) const {
  for (std::uint32_t done = work.confirmed; done < work.fetched;) {
    guestmem::SpanList ignored;
    const std::uint32_t bytes = std::min(work.fetched - done, kPieceBytesMax);
    static_cast<void>(
        resolve_sges(mrs_, qp.identity.pd, sges, done, bytes, {.flag = abi::kAccessLocalWrite}, ignored));
    done += bytes;
  }
}

void Loans::forget(QueuePair& qp) {
  SendWindow& window = qp.send.window;
  for (std::uint32_t at = window.head(); at != window.tail(); ++at) {
    SendWork& work = window.at(at);
    if (work.fetches != 0) mark_again(qp, work, window.sges(at));
    qp.loans.fetching -= std::exchange(work.fetches, std::uint8_t{0});
    give_back(qp, work, window.sges(at));
  }
  mark_again(qp);
  while (qp.loans.answer_count != 0) give_answer_back(qp, qp.loans.answers[0]);
  while (qp.loans.placing_count != 0) end_placing(qp);
  PVRDMA_CHECK(!qp.loans.any(), "stop() has ended each loan of the QP");
}

void Loans::update(QueuePair& qp) {
  if (!qp.loans.any()) {
    qp.loans.link.unlink();
  } else if (!qp.loans.link.linked()) {
    qp.loans.link.link_before(all_);
  }
}

}  // namespace pvrdma::verbs
