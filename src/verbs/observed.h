// How an engine informs its observer: finds out which packet a response stands for, and reports arriving
// messages with their payload, in order. Thread: shard-owned.
#pragma once

#include <type_traits>

#include "verbs/observer.h"
#include "verbs/payload.h"
#include "verbs/queue_pair.h"
#include "verbs/wire.h"

namespace pvrdma::verbs {

// For a response to `request` that the responder of `qp` sends.
Answered answered_by_us(const QueuePair& qp, const Request& request, const Response& response);
// For a response that arrived for the requester of `qp`. If its message is complete already, it counts as the
// answer to the message before the oldest open one.
Answered answered_by_peer(QueuePair& qp, const Response& response);

// A request or response while the engine acts on it. It stands in for the observer, so that answers which the
// engine sends meanwhile are reported after the arriving message. It stands in for the payload, so that the
// message is reported with its bytes once they are placed.
template <typename Message>
class Arrival final : public MessageObserver, public Payload {
 public:
  // `wire` has an observer; all are borrowed.
  Arrival(Wire& wire, QueuePair& qp, const Message& message, Payload& payload, Instant now)
      : wire_(wire),
        observer_(*wire.observer()),
        message_(message),
        payload_(payload),
        mtu_(qp.attributes.path_mtu),
        now_(now) {
    if constexpr (std::is_same_v<Message, Response>) answered_ = answered_by_peer(qp, message);
    wire.observe(this);
  }
  ~Arrival() override {
    tell(nullptr);
    wire_.observe(&observer_);
  }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  std::uint64_t bytes() const override { return payload_.bytes(); }
  bool copy_to(const guestmem::SpanList& target) override {
    if (!payload_.copy_to(target)) return false;
    tell(&target);
    return true;
  }
  // If the payload is placed later, the message is reported when it is handed over again.
  Placed place(const guestmem::SpanList& target) override {
    const Placed placed = payload_.place(target);
    if (placed == Placed::kDone) tell(&target);
    if (placed == Placed::kLater) told_ = true;
    return placed;
  }
  bool is_back() const override { return payload_.is_back(); }

  void on_request(Direction direction, const Request& request, const guestmem::SpanList* payload,
                  abi::Mtu mtu, Instant now) override {
    tell(nullptr);
    observer_.on_request(direction, request, payload, mtu, now);
  }
  void on_response(Direction direction, const Response& response, const Answered& answered,
                   const guestmem::SpanList* payload, abi::Mtu mtu, Instant now) override {
    tell(nullptr);
    observer_.on_response(direction, response, answered, payload, mtu, now);
  }
  void on_datagram(Direction direction, const Datagram& datagram, const guestmem::SpanList& payload,
                   Instant now) override {
    tell(nullptr);
    observer_.on_datagram(direction, datagram, payload, now);
  }

 private:
  void tell(const guestmem::SpanList* payload) {
    if (told_) return;
    told_ = true;
    if constexpr (std::is_same_v<Message, Response>) {
      observer_.on_response(Direction::kInbound, message_, answered_, payload, mtu_, now_);
    } else {
      observer_.on_request(Direction::kInbound, message_, payload, mtu_, now_);
    }
  }

  Wire& wire_;
  MessageObserver& observer_;
  const Message& message_;
  Payload& payload_;
  const abi::Mtu mtu_;
  const Instant now_;
  Answered answered_;
  bool told_ = false;
};

}  // namespace pvrdma::verbs
