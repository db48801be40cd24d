// QueueLink and LinkedQueue: intrusive queues. Each object contains its own links, so entering and leaving a
// queue is cheap, allocates nothing and needs no search. An object can be in one queue for each link that it
// has. Thread: shard-owned.
#pragma once

namespace pvrdma::verbs {

// An object's place in a queue. The links of a queue form a ring, so an object can leave without knowing
// which queue it is in.
template <typename Owner>
class QueueLink {
 public:
  // `owner` is null for the queue's own link, which is both ends of the ring.
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
  // Moves all other links of this ring before `place`, in their order.
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
  // Does nothing if the object is already in this queue, or in another queue that uses the same link.
  void append(Owner& object) {
    if (!(object.*link).linked()) (object.*link).link_before(ends_);
  }
  Owner* take() {  // null when empty
    Owner* object = front();
    if (object != nullptr) (object->*link).unlink();
    return object;
  }
  // Moves all objects of `other` to the end of this queue, in their order.
  void append_all(LinkedQueue& other) { other.ends_.move_ring_before(ends_); }

 private:
  QueueLink<Owner> ends_{nullptr};  // before the first object and behind the last
};

}  // namespace pvrdma::verbs
