#include "transport/hca/host_pipes.h"

#include <algorithm>
#include <atomic>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "transport/peer_name.h"

namespace pvrdma::transport::hca {
namespace {

// Makes an end here, asks the other host for its end, and connects the two. May sleep.
Result<std::unique_ptr<PipeEnd>> dialled_end(const Station* here, ShardNumber from, Introducer& introducer,
                                             const HcaPeer& peer) {
  if (here == nullptr) return fail("the device is not active");
  auto end = PipeEnd::make(here->nic, here->mtu);
  if (!end) return end;
  const PipeOffer offer{.end = (*end)->here(), .gids = here->gids, .from_shard = from, .shard = peer.shard};
  const auto answer = introducer.introduce(peer.name, offer);
  if (!answer) return Failure(answer.error());
  if (const auto defect = defect_of(*answer, offer); !defect.empty())
    return fail(fmt::format("its answer is invalid: {}", defect));
  if (auto done = (*end)->connect(answer->dialler, answer->acceptor, answer->end); !done)
    return Failure(std::move(done).error());
  return end;
}

}  // namespace

// A job for the worker's thread and its result.
struct HostPipes::Job {
  std::atomic<bool> is_void = false;  // nobody wants the result
  bool is_too_early = false;          // the host was not asked
  Result<std::unique_ptr<PipeEnd>> made = nullptr;
};

HostPipes::~HostPipes() {
  bury(dialled_);
  bury(accepted_);
}

void HostPipes::configure(const HcaPeer& peer, const std::string& denied, Instant now) {
  const bool stays = peer == peer_ && denied == denied_;
  peer_ = peer;
  denied_ = denied;
  if (stays) return;
  if (denied.empty()) {
    trouble_.clear();
  } else {
    close(wire::GoodbyeReason::kReconfigured, denied, now);
  }
  dial_at_ = now;
  shared_.attention = true;
}

void HostPipes::close(wire::GoodbyeReason reason, std::string_view sentence, Instant now) {
  give_up_dial();
  if (dialled_ != nullptr) dialled_->close(reason, sentence, now);
  if (accepted_ != nullptr) accepted_->close(reason, sentence, now);
  trouble_ = sentence;
}

void HostPipes::break_off(const std::string& trouble, Instant now) {
  give_up_dial();
  trouble_ = trouble;
  if (dialled_ != nullptr) dialled_->break_off(trouble);
  if (accepted_ != nullptr) accepted_->break_off(trouble);
  look_after_pipes(now);
}

void HostPipes::prepare() {
  need(shared_.clock.now());
  if (is_up_ || is_wanted_) return;
  is_wanted_ = true;
  shared_.attention = true;
}

bool HostPipes::leads_to_first() const {
  return shared_.shard == ShardNumber{} && peer_.shard == ShardNumber{};
}

bool HostPipes::is_needed(Instant now) const {
  return leads_to_first() || is_wanted_ || demand_.is_there(now);
}

void HostPipes::rest_if_idle(Instant now) {
  if (!is_up_) return;
  demand_.look(now);
  if (!is_needed(now))
    dialled_->close(wire::GoodbyeReason::kReconfigured, "no adapter has used it for a minute", now);
}

// The result of a dial in progress will be ignored. One that has not begun does nothing.
void HostPipes::give_up_dial() {
  if (dialling_ != nullptr) dialling_->is_void = true;
  dialling_ = nullptr;
}

void HostPipes::dial_if_needed(Instant now, const Lanes& lanes) {
  if (!denied_.empty() || dialled_ != nullptr || dialling_ != nullptr || !is_needed(now)) return;
  if (now < dial_at_) return shared_.check_at(dial_at_);
  const LaneState way = lanes(peer_.id);
  if (way == LaneState::kRest && !demand_.was_needed_lately(now)) is_wanted_ = false;  // no path waits there
  if (way == LaneState::kDown) {  // nothing has failed: asks again soon
    dial_at_ = now + kRedialFirst;
    shared_.check_at(dial_at_);
  } else if (is_needed(now)) {
    dial();
  }
}

void HostPipes::dial() {
  auto job = std::make_shared<Job>();
  // `this` is safe: HostPipes lives as long as the Hca, and without the Hca the second function is not
  // called.
  shared_.services.work(
      [job, here = shared_.station, from = shared_.shard, peer = peer_, &introducer = introducer_] {
        if (job->is_void) return;
        if (auto may = introducer.check(peer.name); !may) {
          job->is_too_early = true;
          job->made = Failure(std::move(may).error());
          return;
        }
        job->made = dialled_end(here.get(), from, introducer, peer);
      },
      [this, job] { on_dialled(*job); });
  dialling_ = std::move(job);
}

void HostPipes::on_dialled(Job& job) {
  if (job.is_void) return;
  const Instant now = shared_.clock.now();
  dialling_ = nullptr;
  if (!job.made) {
    if (!job.is_too_early || trouble_.empty()) trouble_ = job.made.error().message;
    if (!job.is_too_early) {
      ++shared_.errors.failed_setups;
      note("no pipe", now);
    }
    dial_later(now);
    return;
  }
  dialled_ = make(Pipe::Role::kDialler, *job.made, now);
  usable_at_ = Instant::never();
  if (dialled_ == nullptr) dial_later(now);
  shared_.attention = true;
}

void HostPipes::adopt(std::unique_ptr<PipeEnd> end, Instant now) {
  if (!denied_.empty()) return shared_.services.bury(std::move(end));
  if (accepted_ != nullptr)
    accepted_->close(wire::GoodbyeReason::kReplaced, "a newer pipe has taken its place", now);
  bury(accepted_);
  accepted_ = make(Pipe::Role::kAcceptor, end, now);
  shared_.attention = true;
}

// Null: memory ran out, and the end has been buried.
std::unique_ptr<Pipe> HostPipes::make(Pipe::Role role, std::unique_ptr<PipeEnd>& end, Instant now) {
  try {
    return std::make_unique<Pipe>(shared_, role, peer_.id, end, now);
  } catch (const std::bad_alloc&) {
    shared_.services.bury(std::move(end));
    return nullptr;
  }
}

void HostPipes::stop(SegmentId segment, const verbs::Connection& connection) {
  if (dialled_ != nullptr) dialled_->stop(segment, connection);
  if (accepted_ != nullptr) accepted_->stop(segment, connection);
}

void HostPipes::stop_all(const verbs::Engine& engine) {
  if (dialled_ != nullptr) dialled_->stop_all(engine);
  if (accepted_ != nullptr) accepted_->stop_all(engine);
}

void HostPipes::turn(Instant now, const Lanes& lanes) {
  look_after_pipes(now);
  dial_if_needed(now, lanes);
}

void HostPipes::look_after_pipes(Instant now) {
  if (dialled_ != nullptr && dialled_->broken()) end_dialled(now);
  if (accepted_ != nullptr && accepted_->broken()) bury(accepted_);
  if (dialled_ != nullptr && dialled_->is_up()) {
    if (usable_at_ == Instant::never()) {
      usable_at_ = now + proof_;
      shared_.check_at(usable_at_);
    }
    if (!is_up_ && now >= usable_at_) {
      is_up_ = true;
      is_wanted_ = false;
      need(now);
      used_since_ = now;
      pause_ = kRedialFirst;
      trouble_.clear();
      noted_.clear();
      news_.changed = news_.restored = news_.ready = true;
      report_connected();
    }
    if (dialled_->take_drained()) news_.ready = true;
  }
  tell(now);
  if (dialled_ != nullptr) dialled_->turn(now);
  if (accepted_ != nullptr) accepted_->turn(now);
}

void HostPipes::end_dialled(Instant now) {
  trouble_ = std::string(dialled_->trouble());
  const bool in_order = dialled_->ended_in_order();
  bury(dialled_);
  if (rests()) trouble_.clear();
  usable_at_ = Instant::never();
  dial_later(now);
  if (!is_up_) return;
  is_up_ = false;
  if (!in_order) {
    ++falls_;
    ++shared_.errors.falls;
    const HcaTimes& times = shared_.times;
    if (now - used_since_ >= times.proof_max) proof_ = Duration{0};
    proof_ = std::min(std::max(proof_ * 2, times.proof_first), times.proof_max);
  }
  // Whichever path comes next, requests sent by this one and not answered may be lost.
  news_.changed = news_.restored = true;
  if (!in_order) note("the pipe broke", now);
}

// Tells each event once, even if an earlier call was cut short by bad_alloc.
void HostPipes::tell(Instant now) {
  if (std::exchange(news_.changed, false)) shared_.inbound.on_up_changed(peer_.id, now);
  if (std::exchange(news_.restored, false)) shared_.inbound.on_restored(peer_.id, now);
  if (std::exchange(news_.ready, false)) shared_.inbound.on_ready(peer_.id, now);
}

void HostPipes::bury(std::unique_ptr<Pipe>& pipe) {
  if (pipe == nullptr) return;
  shared_.services.bury(pipe->release());
  pipe.reset();
}

// Does not log the same trouble twice in a row.
void HostPipes::note(const char* what, Instant now) {
  if (trouble_ == noted_ || !limiter_.allow(now)) return;
  noted_ = trouble_;
  const log::Level level = leads_to_first() ? log::Level::kWarn : log::Level::kDebug;
  if (log::enabled(level))
    log::write(level, fmt::format("hca: {} to {}: {}; trying again", what, peer_name(peer_.name, peer_.shard),
                                  trouble_));
}

// Other pipes than those between the first shards come and go as they are needed.
void HostPipes::report_connected() const {
  const log::Level level = leads_to_first() ? log::Level::kInfo : log::Level::kDebug;
  if (log::enabled(level))
    log::write(level, fmt::format("hca: the pipe to {} is connected", peer_name(peer_.name, peer_.shard)));
}

void HostPipes::dial_later(Instant now) {
  dial_at_ = now + pause_;
  pause_ = std::min(pause_ * 2, kRedialMax);
  shared_.check_at(dial_at_);
}

void HostPipes::on_time(Instant now) {
  rest_if_idle(now);
  if (dialled_ != nullptr) dialled_->on_time(now);
  if (accepted_ != nullptr) accepted_->on_time(now);
  shared_.attention = true;
}

Instant HostPipes::next_deadline() const {
  Instant next = Instant::never();
  if (dialled_ != nullptr) {
    next = std::min(next, dialled_->next_deadline());
    if (!is_up_) next = std::min(next, usable_at_);
  } else if (dialling_ == nullptr && denied_.empty() && !rests()) {
    next = std::min(next, dial_at_);
  }
  if (accepted_ != nullptr) next = std::min(next, accepted_->next_deadline());
  return next;
}

}  // namespace pvrdma::transport::hca
