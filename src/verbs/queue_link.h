// QueueLink and LinkedQueue: queues whose members bring their own place, so that entering and leaving costs
// little, allocates nothing and needs no search. An object that has several links can be in as many queues.
// Thread: shard-owned.
#pragma once

namespace pvrdma::verbs {

// An object's place in a queue: a ring that it enters and leaves without knowing which queue it is.
template <typename Owner>
class QueueLink {
 public:
  // `owner` null: the ends of a queue, which are one.
  explicit QueueLink(Owner* owner) : owner_(owner) {}
  ~QueueLink() { unlink(); }
  QueueLink(const QueueLink&) = delete;
  QueueLink& operator=(const QueueLink&) = delete;

  Owner* owner() const { return owner_; }
  bool linked() const { return next_ != this; }
  const QueueLink& next() const { return *next_; }
  QueueLink& next() { return *next_; }

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
  Owner* const owner_;
  QueueLink* next_ = this;
  QueueLink* previous_ = this;
};

// Objects in order of arrival, linked through their `link`.
template <typename Owner, QueueLink<Owner> Owner::*link>
class LinkedQueue {
 public:
  bool empty() const { return !ends_.linked(); }
  Owner* front() const { return ends_.next().owner(); }  // null when empty
  // Does nothing for an object that is linked, here or in another queue of the same link.
  void append(Owner& object) {
    if (!(object.*link).linked()) (object.*link).link_before(ends_);
  }
  Owner* take() {  // null when empty
    Owner* object = front();
    if (object != nullptr) (object->*link).unlink();
    return object;
  }
  // All of `other`, in its order, behind those here.
  void append_all(LinkedQueue& other) { other.ends_.move_ring_before(ends_); }

 private:
  QueueLink<Owner> ends_{nullptr};  // before the first and behind the last
};

}  // namespace pvrdma::verbs
