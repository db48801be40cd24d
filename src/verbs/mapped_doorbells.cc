#include "verbs/mapped_doorbells.h"

namespace pvrdma::verbs {

void MappedDoorbells::open(ContextHandle context, std::size_t contexts_max) {
  if (contexts_.empty()) contexts_.resize(contexts_max);
  contexts_[context.value] = std::make_unique<MappedContext>();
}

void MappedDoorbells::close(ContextHandle context) {
  if (find(context) != nullptr) contexts_[context.value].reset();
}

void MappedDoorbells::add(QueuePair& qp) {
  MappedContext* context = find(qp.identity.context);
  if (context == nullptr) return;
  context->qps.append(qp);
  ++context->qp_count;
}

void MappedDoorbells::forget(QueuePair& qp) {
  MappedContext* context = find(qp.identity.context);
  if (context == nullptr) return;
  qp.context_link.unlink();
  if (--context->qp_count == 0) {
    context->looks_due = 0;
    context->due_link.unlink();
  }
}

void MappedDoorbells::add(CompletionQueue& cq) {
  if (MappedContext* context = find(cq.context()); context != nullptr) watch_.add(cq, *context);
}

void MappedDoorbells::on_qp_word(MappedContext& context, QpHandle rung) {
  if (context.qp_count == 0 || (context.qp_count == 1 && context.qps.front()->identity.handle == rung))
    return;
  context.looks_due = context.qp_count;
  due_.append(context);
}

QueuePair* MappedDoorbells::take_look() {
  MappedContext* context = due_.take();
  if (context == nullptr) return nullptr;
  QueuePair* qp = context->qps.take();
  context->qps.append(*qp);
  if (--context->looks_due != 0) due_.append(*context);
  return qp;
}

}  // namespace pvrdma::verbs
