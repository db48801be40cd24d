#include "verbs/loans.h"

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

void Loans::begin_placing(QueuePair& qp, const Request& request) {
  qp.loans.offset = request.offset;
  qp.loans.bytes = request.bytes;
  if (request.op == RequestOp::kSend) {
    qp.loans.placing = QpLoans::Placing::kReceive;
    add_uses(receive_sges(qp));
  } else {
    qp.loans.placing = QpLoans::Placing::kWrite;
    qp.loans.rkey = request.rkey;
    qp.loans.address = request.remote_addr;
    mrs_.add_use(request.rkey);
  }
  update(qp);
}

void Loans::end_placing(QueuePair& qp) {
  switch (qp.loans.placing) {
    case QpLoans::Placing::kNothing:
      return;
    case QpLoans::Placing::kWrite:
      mrs_.drop_use(qp.loans.rkey);
      break;
    case QpLoans::Placing::kReceive:
      drop_uses(receive_sges(qp));
      break;
  }
  qp.loans.placing = QpLoans::Placing::kNothing;
  update(qp);
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

// Each loan pays for its own end here.
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
  const QpLoans& loans = qp.loans;
  guestmem::SpanList ignored;
  switch (loans.placing) {
    case QpLoans::Placing::kNothing:
      return;
    case QpLoans::Placing::kWrite:
      static_cast<void>(mrs_.resolve(loans.rkey, qp.identity.pd, loans.address + loans.offset, loans.bytes,
                                     {.flag = abi::kAccessRemoteWrite, .remote = true}, ignored));
      return;
    case QpLoans::Placing::kReceive:
      static_cast<void>(resolve_sges(mrs_, qp.receive.srq != nullptr ? qp.receive.srq->pd() : qp.identity.pd,
                                     receive_sges(qp), loans.offset, loans.bytes,
                                     {.flag = abi::kAccessLocalWrite}, ignored));
      return;
  }
}

void Loans::forget(QueuePair& qp) {
  SendWindow& window = qp.send.window;
  for (std::uint32_t at = window.head(); at != window.tail(); ++at)
    give_back(qp, window.at(at), window.sges(at));
  mark_again(qp);
  end_placing(qp);
  PVRDMA_CHECK(!qp.loans.any(), "what was lent is in the window until it is given back");
}

void Loans::update(QueuePair& qp) {
  if (!qp.loans.any()) {
    qp.loans.link.unlink();
  } else if (!qp.loans.link.linked()) {
    qp.loans.link.link_before(all_);
  }
}

}  // namespace pvrdma::verbs
