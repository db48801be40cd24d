#include "sim/connection.h"

#include <algorithm>
#include <cstring>

#include "support/must.h"
#include "verbs/completion_watch.h"

namespace pvrdma::sim {

using test::must;

namespace {

// Twice the time after which a guest that seemed to poll counts as asleep, because that must be noticed
// first.
constexpr Duration kWakesWithin = 2 * verbs::CompletionWatch::kPatienceMax;

}  // namespace

Connection::Connection(std::string name, Random& random, const Vm& a, const Vm& b,
                       const test::ConnectOptions& options)
    : name_(std::move(name)), random_(random), vms_{a, b} {
  make_side(sides_[0], a);
  make_side(sides_[1], b);
  must(test::connect(*sides_[0].end, *sides_[1].end, options));
  flows_[0] = std::make_unique<Flow>(name_ + " >", *sides_[0].end, *sides_[1].end);
  flows_[1] = std::make_unique<Flow>(name_ + " <", *sides_[1].end, *sides_[0].end);
  if (options.rnr_retry != 7) trouble();
}

Connection::~Connection() {
  for (Side& side : sides_) side.end.reset();  // before the objects that it uses
}

void Connection::make_side(Side& side, const Vm& vm) {
  driver::Context* context = random_.chance(700) ? vm.user : &vm.device->kernel();
  side.hides = vm.hides_doorbells && !context->is_kernel();
  side.pd = must(driver::ProtectionDomain::create(*context));
  const bool has_srqs = vm.device->caps().max_srq != 0;
  if (has_srqs && !context->is_kernel() && random_.chance(300)) {
    side.srq = must(driver::SharedReceiveQueue::create(*side.pd, {.max_wr = kReceives, .max_sge = 4}));
  }
  test::EndpointOptions options{
      .context = context, .buffer_bytes = kBufferBytes, .srq = side.srq.get(), .pd = side.pd.get()};
  // Processes have scattered pages, but each page costs a system call.
  options.placement = random_.chance(200) ? driver::Placement::kScattered : driver::Placement::kContiguous;
  side.end = std::make_unique<test::RcEndpoint>(*vm.device, vm.gid, options);
}

void Connection::post_requests(int side, std::uint32_t count, const Mix& mix) {
  if (at(side).gone) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto doorbell = i + 1 == count ? driver::Doorbell::kRing : driver::Doorbell::kSkip;
    const PostedWork posted =
        post_request(random_, mix, flow(side), *at(side).end, *at(1 - side).end, doorbell);
    if (posted.faulty) trouble();
    if (!posted.any && i != 0) static_cast<void>(at(side).end->qp->ring_doorbell(abi::kQpDoorbellSend));
    if (!posted.any) return;
  }
}

void Connection::post_receives(int side, std::uint32_t count, const Mix& mix) {
  if (at(side).gone) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (post_receive(random_, mix, flow(1 - side), *at(side).end, at(side).srq.get()).faulty) trouble();
  }
}

void Connection::post_marker(int side) {
  if (!at(side).gone && !flow(side).ended()) sim::post_marker(flow(side), *at(side).end, *at(1 - side).end);
}

std::vector<driver::WorkCompletion> Connection::take(driver::CompletionQueue& cq) const {
  std::vector<driver::WorkCompletion> all(cq.entries());
  all.resize(cq.poll(all));
  require(cq.fault() == driver::CompletionQueue::Fault::kNone, name_ + ": a consumer is stuck on its CQ");
  return all;
}

std::size_t Connection::poll(Instant now) {
  std::size_t count = 0;
  for (int side = 0; side < 2; ++side) {
    if (at(side).gone) continue;
    const auto received = take(*at(side).end->recv_cq);
    for (const driver::WorkCompletion& one : received) flow(1 - side).on_receive(one, calm_);
    count += received.size();
  }
  for (int side = 0; side < 2; ++side) {
    if (at(side).gone || !is_awake(at(side), now)) continue;
    const auto sent = take(*at(side).end->send_cq);
    for (const driver::WorkCompletion& one : sent) flow(side).on_send(one, calm_);
    check_event(at(side), sent.size());
    count += sent.size();
  }
  return count;
}

void Connection::arm(Instant now) {
  for (Side& side : sides_) {
    if (side.gone || side.armed) continue;
    static_cast<void>(side.end->device.dispatch_notifications());
    static_cast<void>(side.end->send_cq->take_events());
    must(side.end->send_cq->arm());
    side.armed = true;
  }
  poll(now);  // as applications do; completions from now on must raise an event
}

// A sleeper's event may be late or needless, but it must come if a completion waits.
bool Connection::is_awake(Side& side, Instant now) const {
  if (!side.asleep) return true;
  static_cast<void>(side.end->device.dispatch_notifications());
  if (side.end->send_cq->take_events() != 0) {
    side.asleep = side.armed = false;
    side.has_unread_since = Instant::never();
    return true;
  }
  const std::byte* unread = nullptr;
  if (side.end->send_cq->ring().front(unread) != driver::RingStatus::kReady) return false;
  side.has_unread_since = std::min(side.has_unread_since, now);
  require(now - side.has_unread_since < kWakesWithin, name_ + ": a guest sleeps on a completion");
  return false;
}

// Checks that an armed CQ with a completion has raised an event.
void Connection::check_event(Side& side, std::size_t completions) {
  if (side.hides) {  // it may have taken, after its ARM, the completion that the event was for
    side.asleep = side.armed && completions == 0;
    side.armed = side.asleep;
    return;
  }
  if (!side.armed || completions == 0) return;
  static_cast<void>(side.end->device.dispatch_notifications());
  require(side.end->send_cq->take_events() != 0, name_ + ": a completion came without the event asked for");
  side.armed = false;
}

void Connection::to_error(int side, Instant now) {
  trouble();
  if (at(side).gone) return;
  must(at(side).end->qp->to_error());
  reuse_memory(side, now);
}

// Once all its requests have completed, the memory for them is free to be used again.
void Connection::reuse_memory(int side, Instant now) {
  if (!at(side).last.empty()) return;
  if (!at(side).gone) {
    poll(now);
    if (at(side).asleep || !flow(side).all_sends_completed()) return;
  }
  const std::span<std::byte> buffer(at(side).end->bytes(), kBufferBytes);
  std::memset(buffer.data() + kBigSlotOffset, 0xee, kReceivesOffset - kBigSlotOffset);
  at(side).last.assign(buffer.begin(), buffer.begin() + kExposedBytes);
}

void Connection::destroy_qp(int side, Instant now) {
  trouble();
  if (at(side).gone) return;
  must(at(side).end->qp->destroy());
  at(side).gone = true;
  reuse_memory(side, now);
  flow(1 - side).forget_receiver();
}

void Connection::toggle_drain(int side) {
  if (at(side).gone) return;
  const bool done =
      at(side).draining ? at(side).end->qp->sqd_to_rts().has_value() : at(side).end->qp->to_sqd().has_value();
  if (done) at(side).draining = !at(side).draining;
  require(done || !calm_, name_ + ": a healthy QP refused to drain or to go on");
}

void Connection::go_on() {
  for (int side = 0; side < 2; ++side) {
    if (at(side).draining) toggle_drain(side);
  }
}

void Connection::lose_vm(int side) {
  trouble();
  at(side).gone = at(side).lost = true;
  flow(1 - side).forget_receiver();
}

bool Connection::uses_vm(std::uint32_t index) const {
  return vms_[0].index == index || vms_[1].index == index;
}

bool Connection::broken() const {
  return sides_[0].gone || sides_[1].gone || flows_[0]->ended() || flows_[1]->ended();
}

bool Connection::busy() const {
  for (std::size_t side = 0; side < 2; ++side) {
    if (!sides_[side].gone && !sides_[side].draining && flows_[side]->any_signaled_outstanding()) return true;
  }
  return false;
}

void Connection::verify() const {
  for (const auto& flow : flows_) flow->verify();
  for (const Side& side : sides_) {
    if (side.last.empty()) continue;
    require(std::memcmp(side.last.data(), side.end->bytes(), side.last.size()) == 0,
            name_ + ": memory changed after the QP had ended");
  }
}

void Connection::verify_at_rest() const {
  verify();
  const abi::QpAttr ends[] = {must(sides_[0].end->qp->query()), must(sides_[1].end->qp->query())};
  for (int side = 0; side < 2; ++side) {
    require(ends[side].sq_psn == ends[1 - side].rq_psn,
            name_ + ": its ends disagree on the next PSN: " + std::to_string(ends[side].sq_psn) +
                " is sent, " + std::to_string(ends[1 - side].rq_psn) + " expected");
  }
}

void Connection::finish(Instant now) {
  trouble();
  for (Side& side : sides_) side.asleep = false;
  poll(now);
  for (int side = 0; side < 2; ++side) to_error(side, now);
  for (Side& side : sides_) side.asleep = false;
  poll(now);
  for (int side = 0; side < 2; ++side) {
    if (at(side).gone) continue;
    flow(side).require_all_sends_completed();
    if (at(side).srq == nullptr) flow(1 - side).require_all_receives_completed();
  }
  for (int side = 0; side < 2; ++side) {
    if (!at(side).lost)
      static_cast<void>(at(side).end->device.dispatch_notifications());  // while the CQs exist
  }
  for (int side = 0; side < 2; ++side) destroy_qp(side, now);
  verify();
}

}  // namespace pvrdma::sim
