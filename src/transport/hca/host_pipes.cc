#include "transport/hca/host_pipes.h"

#include <algorithm>
#include <new>
#include <utility>

namespace pvrdma::transport::hca {

HostPipes::~HostPipes() {
  bury(dialled_);
  bury(accepted_);
}

void HostPipes::configure(const std::string& name, const std::string& denied, Instant now) {
  const bool stays = name == name_ && denied == denied_;
  name_ = name;
  denied_ = denied;
  if (stays) return;
  if (!denied.empty()) close(wire::GoodbyeReason::kReconfigured, denied, now);
  dial_at_ = now;
  context_.attention = true;
}

void HostPipes::close(wire::GoodbyeReason reason, std::string_view sentence, Instant now) {
  ++attempt_;  // one under way comes to nothing
  dialling_until_ = {};
  if (dialled_ != nullptr) dialled_->close(reason, sentence, now);
  if (accepted_ != nullptr) accepted_->close(reason, sentence, now);
  trouble_ = sentence;
}

void HostPipes::break_off(const std::string& trouble, Instant now) {
  ++attempt_;
  dialling_until_ = {};
  trouble_ = trouble;
  if (dialled_ != nullptr) dialled_->break_off(trouble);
  if (accepted_ != nullptr) accepted_->break_off(trouble);
  turn(now, false);
}

void HostPipes::on_dialled(std::uint64_t attempt, Result<std::unique_ptr<PipeEnd>> end, Instant now) {
  if (attempt != attempt_) {
    if (end) owner_.bury(*std::move(end));
    return;
  }
  dialling_until_ = {};
  if (!end) {
    ++context_.errors.failed_setups;
    trouble_ = end.error().message;
    note("no pipe", now);
    dial_later(now);
    return;
  }
  dialled_ = make(Pipe::Role::kDialler, *end, now);
  usable_at_ = Instant::never();
  if (dialled_ == nullptr) dial_later(now);
  context_.attention = true;
}

void HostPipes::adopt(std::unique_ptr<PipeEnd> end, Instant now) {
  if (!denied_.empty()) return owner_.bury(std::move(end));
  if (accepted_ != nullptr)
    accepted_->close(wire::GoodbyeReason::kReplaced, "a newer pipe has taken its place", now);
  bury(accepted_);
  accepted_ = make(Pipe::Role::kAcceptor, end, now);
  context_.attention = true;
}

// Null: there is no memory, and the end is buried.
std::unique_ptr<Pipe> HostPipes::make(Pipe::Role role, std::unique_ptr<PipeEnd>& end, Instant now) {
  try {
    return std::make_unique<Pipe>(context_, role, id_, std::move(end), now);
  } catch (const std::bad_alloc&) {
    owner_.bury(std::move(end));
    return nullptr;
  }
}

void HostPipes::send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload,
                     Instant now) {
  if (is_up_) dialled_->send(segment, request, payload, now);
}

void HostPipes::send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) {
  if (accepted_ == nullptr || !accepted_->send(segment, response, payload, now))
    ++context_.errors.responses_dropped;
}

bool HostPipes::lend(SegmentId segment, const verbs::Response& response, std::uint32_t rkey,
                     const guestmem::SpanList& payload) {
  return accepted_ != nullptr && accepted_->lend(segment, response, rkey, payload);
}

void HostPipes::expect_loan(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
                            Instant now) {
  if (is_up_) dialled_->expect_loan(engine, segment, request, now);
}

void HostPipes::send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Instant now) {
  if (!is_up_ || !dialled_->send(segment, datagram, payload, now)) ++context_.errors.datagrams_dropped;
}

void HostPipes::stop(SegmentId segment, const verbs::Connection& connection) {
  if (dialled_ != nullptr) dialled_->stop(segment, connection);
  if (accepted_ != nullptr) accepted_->stop(segment, connection);
}

void HostPipes::stop_all(const verbs::Engine& engine) {
  if (dialled_ != nullptr) dialled_->stop_all(engine);
  if (accepted_ != nullptr) accepted_->stop_all(engine);
}

void HostPipes::turn(Instant now, bool may_ask) {
  if (dialled_ != nullptr && dialled_->broken()) end_dialled(now);
  if (accepted_ != nullptr && accepted_->broken()) end_accepted();
  if (dialled_ != nullptr && dialled_->is_up()) {
    if (usable_at_ == Instant::never()) {
      usable_at_ = now + proof_;
      context_.check_at(usable_at_);
    }
    if (!is_up_ && now >= usable_at_) {
      is_up_ = true;
      used_since_ = now;
      pause_ = kRedialFirst;
      trouble_.clear();
      noted_.clear();
      news_.changed = news_.restored = news_.ready = true;
      log::info("hca: a pipe to host {} stands", name_);
    }
    if (dialled_->take_drained()) news_.ready = true;
  }
  tell(now);
  if (dialled_ != nullptr) dialled_->turn(now);
  if (accepted_ != nullptr) accepted_->turn(now);
  if (!denied_.empty() || dialled_ != nullptr || now < dial_at_ || now < dialling_until_) return;
  if (!may_ask) {  // looked at again soon: nothing has failed
    dial_at_ = now + kRedialFirst;
    context_.check_at(dial_at_);
    return;
  }
  owner_.dial(*this, ++attempt_);
  dialling_until_ = now + kDialMax;
  context_.check_at(dialling_until_);
}

void HostPipes::end_dialled(Instant now) {
  trouble_ = std::string(dialled_->trouble());
  const bool in_order = dialled_->ended_in_order();
  bury(dialled_);
  usable_at_ = Instant::never();
  dial_later(now);
  if (!is_up_) return;
  is_up_ = false;
  if (!in_order) {
    ++falls_;
    ++context_.errors.falls;
    const HcaTimes& times = context_.times;
    if (now - used_since_ >= times.proof_max) proof_ = Duration{0};
    proof_ = std::min(std::max(proof_ * 2, times.proof_first), times.proof_max);
  }
  // Whatever path comes next, what was sent by this one and not answered may be lost.
  news_.changed = news_.restored = true;
  if (!in_order) note("the pipe broke", now);
}

// Each once, also where there was no memory in between.
void HostPipes::tell(Instant now) {
  if (std::exchange(news_.changed, false)) context_.inbound.on_up_changed(id_, now);
  if (std::exchange(news_.restored, false)) context_.inbound.on_restored(id_, now);
  if (std::exchange(news_.ready, false)) context_.inbound.on_ready(id_, now);
}

void HostPipes::end_accepted() {
  bury(accepted_);
}

void HostPipes::bury(std::unique_ptr<Pipe>& pipe) {
  if (pipe == nullptr) return;
  owner_.bury(pipe->release());
  pipe.reset();
}

// Not for the same trouble again.
void HostPipes::note(const char* what, Instant now) {
  if (trouble_ == noted_ || !limiter_.allow(now)) return;
  noted_ = trouble_;
  log::warn("hca: {} to host {}: {}; trying again", what, name_, trouble_);
}

void HostPipes::dial_later(Instant now) {
  dial_at_ = now + pause_;
  pause_ = std::min(pause_ * 2, kRedialMax);
  context_.check_at(dial_at_);
}

void HostPipes::on_time(Instant now) {
  if (dialled_ != nullptr) dialled_->on_time(now);
  if (accepted_ != nullptr) accepted_->on_time(now);
  context_.attention = true;
}

Instant HostPipes::next_deadline() const {
  Instant next = Instant::never();
  if (dialled_ != nullptr) {
    next = std::min(next, dialled_->next_deadline());
    if (!is_up_) next = std::min(next, usable_at_);
  } else if (denied_.empty()) {
    next = std::min(next, std::max(dial_at_, dialling_until_));
  }
  if (accepted_ != nullptr) next = std::min(next, accepted_->next_deadline());
  return next;
}

}  // namespace pvrdma::transport::hca
