// QueueLink: a QP's place in one of its scheduler's queues: a ring that a QP enters and leaves without
// knowing which queue it is. Thread: shard-owned.
#pragma once

namespace pvrdma::verbs {

class QueuePair;

class QueueLink {
 public:
  // `owner` null: the ends of a queue, which are one.
  explicit QueueLink(QueuePair* owner) : owner_(owner) {}
  ~QueueLink() { unlink(); }
  QueueLink(const QueueLink&) = delete;
  QueueLink& operator=(const QueueLink&) = delete;

  QueuePair* owner() const { return owner_; }
  bool linked() const { return next_ != this; }
  const QueueLink& next() const { return *next_; }

  void link_before(QueueLink& place) {
    next_ = &place;
    previous_ = place.previous_;
    previous_->next_ = this;
    place.previous_ = this;
  }
  void unlink() {
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = this;
  }
  // All that are linked to this move before `place`, in their order.
  void move_ring_before(QueueLink& place) {
    if (!linked()) return;
    place.previous_->next_ = next_;
    next_->previous_ = place.previous_;
    previous_->next_ = &place;
    place.previous_ = previous_;
    next_ = previous_ = this;
  }

 private:
  QueuePair* const owner_;
  QueueLink* next_ = this;
  QueueLink* previous_ = this;
};

}  // namespace pvrdma::verbs
