#include "transport/siblings/sibling.h"

#include <algorithm>
#include <span>
#include <utility>

#include "transport/siblings/fences.h"

namespace pvrdma::transport::siblings {
namespace {

// Whether the answer says that the piece was executed: it is before the place that the answer names.
bool is_executed(const verbs::Request& request, const verbs::Response& answer) {
  const std::int32_t ahead = verbs::distance(request.number, answer.number);
  if (ahead != 0) return ahead < 0;
  switch (answer.syndrome) {
    case verbs::Syndrome::kAck:
      return true;
    case verbs::Syndrome::kProgress:
    case verbs::Syndrome::kRnrNak:
    case verbs::Syndrome::kNakSequence:
      return request.end() <= answer.offset;
    case verbs::Syndrome::kNakInvalidRequest:
    case verbs::Syndrome::kNakRemoteAccess:
    case verbs::Syndrome::kNakRemoteOperational:
      return false;  // the QP fails, and stops its loans
  }
  return false;
}

}  // namespace

Sibling::Sibling(const HostRings& rings, ShardNumber own, ShardNumber other)
    : number(other),
      requests(rings.way(own, other).requests),
      answers(rings.way(own, other).answers),
      requests_in(rings.way(other, own).requests, rings.bell(other)),
      answers_in(rings.way(other, own).answers, rings.bell(other)),
      way_in(rings.way(other, own)),
      bell_(rings.bell(other)) {}

void Sibling::note(const RingWriter::Sent& sent, const verbs::Request& request) {
  if (!is_held_) requests.hold();
  is_held_ = true;
  if (sent.share == nullptr || has_more_) return;
  verbs::Engine* const engine = static_cast<AdapterShare*>(sent.share)->engine;
  const auto named = std::span(named_).first(named_count_);
  const bool is_known = std::ranges::any_of(named, [&](const Named& each) {
    return each.engine == engine && each.connection.local == request.from &&
           each.connection.remote == request.to;
  });
  if (is_known) return;
  if (named_count_ == kNamedMax)
    has_more_ = true;
  else
    named_[named_count_++] = {engine, {request.from, request.to}};
}

void Sibling::revoke_answered(SegmentId segment, const verbs::Response& answer) {
  if (!requests.lends()) return;
  requests.revoke(
      [&](const RingWriter::Sent& sent, const Slot& slot) {
        return sent.kind == MessageKind::kRequest && sent.where == Where::kLent &&
               slot.segment() == segment && slot.message.request.from == answer.to &&
               slot.message.request.to == answer.from && is_executed(slot.message.request, answer);
      },
      [](const RingWriter::Sent&, const Slot&) {});
}

void Sibling::revoke_repeated(const void* path) {
  requests.revoke([path](const RingWriter::Sent& sent, const Slot&) { return sent.path == path; },
                  [](const RingWriter::Sent&, const Slot&) {});
}

bool Sibling::announce(SiblingInbound& inbound, Instant now) {
  if (!is_held_) return false;
  is_held_ = false;
  const std::array<Named, kNamedMax> named = named_;  // an engine may stop more meanwhile
  for (const Named& each : std::span(named).first(std::exchange(named_count_, 0)))
    each.engine->repeat(each.connection);
  if (std::exchange(has_more_, false)) inbound.on_restored(number, now);
  if (!is_held_) requests.release();
  return true;
}

void Sibling::forget(const AdapterShare& share) {
  requests.forget(share);
  answers.forget(share);
  const auto named = std::span(named_).first(named_count_);
  const auto rest = std::remove_if(named.begin(), named.end(),
                                   [&](const Named& each) { return each.engine == share.engine; });
  named_count_ -= static_cast<std::uint32_t>(named.end() - rest);
}

void Sibling::flush() {
  const bool any_request = requests.take_unflushed();
  const bool any_answer = answers.take_unflushed();
  if (!any_request && !any_answer) return;
  full_fence();
  bell_.ring();
}

}  // namespace pvrdma::transport::siblings
