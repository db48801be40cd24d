#include "moves/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <fmt/core.h>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/events.h"
#include "device/print_state.h"
#include "motion/checkpoint.h"
#include "motion/restore.h"
#include "moves/as_conflict.h"
#include "moves/checkpoint_line.h"
#include "moves/motion_event.h"

namespace pvrdma::moves {
namespace {

constexpr std::chrono::milliseconds kReadPatience{100};
constexpr Duration kSayEvery = std::chrono::milliseconds(250);
constexpr std::size_t kPieceBytes = 1u << 20;
// A client reads the file for its checksum. Storage that is slower than this is not waited for.
constexpr std::uint64_t kReadBytesPerSecond = 64u << 20;
constexpr std::uint64_t kRamBytesMax = 16ull << 40;  // QEMU says how much it wrote, and is not trusted

}  // namespace

class Checkpoints::Run {
 public:
  Run(motion::CheckpointWish wish, motion::AdapterSide& side, Duration patience)
      : wish_(std::move(wish)), side_(side), patience_(patience) {}

  // Runs on the thread of the checkpoint, until it was finished or given up.
  void lead() {
    {
      motion::Checkpoint checkpoint(wish_, side_);
      const auto report = checkpoint.take([this](const auto& status) { return say_progress(status); });
      if (report) {
        offer(*report, checkpoint.take_state());
        keep_or_abandon(checkpoint, *report);
      } else {
        events::tell(log::Level::kWarn, motion_of(wish_.adapter),
                     "adapter {}: the checkpoint of its VM failed: {}", wish_.adapter,
                     report.error().message);
        say({.vm = wish_.adapter, .error = report.error().message});
      }
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  // The client has gone. Unless finish() was called, the VM runs again. Returns when it does.
  void give_up() {
    std::unique_lock lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return ended_; });
  }

  bool read(std::string& out) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kReadPatience, [this] { return has_output() || ended_; });
    out += std::exchange(lines_, {});
    const std::size_t bytes = std::min(kPieceBytes, state_.size() - state_read_);
    out.append(reinterpret_cast<const char*>(state_.data()) + state_read_, bytes);
    state_read_ += bytes;
    return has_output() || !ended_;
  }

  Result<void> finish() {
    std::unique_lock lock(mutex_);
    if (state_.empty() || has_output() || ended_) {
      return fail(ErrorKind::kNotFound,
                  fmt::format("adapter {}: its checkpoint is not complete yet, or has ended", wish_.adapter));
    }
    finishing_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return ended_; });
    return outcome_;
  }

 private:
  bool has_output() const { return !lines_.empty() || state_read_ < state_.size(); }

  void say(const CheckpointLine& line) {
    {
      const std::lock_guard lock(mutex_);
      lines_ += schema::text_of(line) + "\n";
    }
    changed_.notify_all();
  }

  // Returns false if the client has gone.
  bool say_progress(const vmm::MigrationStatus& status) {
    const Instant now = Instant::now();
    if (now >= say_again_) {
      say_again_ = now + kSayEvery;
      say({.vm = wish_.adapter, .ram_bytes = status.ram_bytes, .remaining_bytes = status.remaining_bytes});
    }
    const std::lock_guard lock(mutex_);
    return !given_up_;
  }

  Duration patience_for(const motion::CheckpointReport& report) const {
    return patience_ + std::chrono::seconds(std::min(report.ram_bytes, kRamBytesMax) / kReadBytesPerSecond);
  }

  void offer(const motion::CheckpointReport& report, std::vector<std::byte> state) {
    say({.vm = wish_.adapter,
         .ram_bytes = report.ram_bytes,
         .state_bytes = state.size(),
         .patience_s = static_cast<std::uint64_t>(
             std::chrono::duration_cast<std::chrono::seconds>(patience_for(report)).count()),
         .took_us = microseconds_of(report.took),
         .qemu = report.qemu});
    const std::lock_guard lock(mutex_);
    state_ = std::move(state);
    changed_.notify_all();
  }

  void keep_or_abandon(motion::Checkpoint& checkpoint, const motion::CheckpointReport& report) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience_for(report), [this] { return finishing_ || given_up_; });
    const bool kept = finishing_;
    lock.unlock();
    if (!kept) {
      abandon(checkpoint);
      return;
    }
    events::tell(log::Level::kInfo, motion_of(wish_.adapter),
                 "adapter {}: its VM was written to {} and ends; QEMU {} (pid {}), it was paused for {} us",
                 wish_.adapter, wish_.file, report.qemu.version, report.qemu.pid,
                 microseconds_of(report.took));
    auto finished = checkpoint.finish();
    lock.lock();
    outcome_ = std::move(finished);
  }

  void abandon(motion::Checkpoint& checkpoint) {
    std::string why = "the client did not confirm that it was stored: the VM goes on";
    if (const auto abandoned = checkpoint.abandon(); !abandoned)
      why = fmt::format("the client did not confirm that it was stored, and the VM could not be resumed: {}",
                        abandoned.error().message);
    events::tell(log::Level::kWarn, motion_of(wish_.adapter),
                 "adapter {}: the checkpoint of its VM failed: {}", wish_.adapter, why);
    say({.vm = wish_.adapter, .error = why});
  }

  const motion::CheckpointWish wish_;
  motion::AdapterSide& side_;
  const Duration patience_;
  Instant say_again_{};  // used only by the thread of the checkpoint
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string lines_;             // guarded, like the members below; lines for the client to read
  std::vector<std::byte> state_;  // for the client to read after the lines
  std::size_t state_read_ = 0;
  bool given_up_ = false;
  bool finishing_ = false;
  bool ended_ = false;
  Result<void> outcome_ = fail(ECANCELED, "the checkpoint was given up: the VM goes on");
};

class Checkpoints::Stream final : public ByteStream {
 public:
  Stream(Checkpoints& all, std::string adapter, std::shared_ptr<Run> run)
      : all_(all), adapter_(std::move(adapter)), run_(std::move(run)) {}
  ~Stream() override {
    run_->give_up();
    const std::lock_guard lock(all_.mutex_);
    all_.runs_.erase(adapter_);
  }
  bool read(std::string& out) override { return run_->read(out); }

 private:
  Checkpoints& all_;
  const std::string adapter_;
  const std::shared_ptr<Run> run_;
};

Result<motion::CheckpointWish> Checkpoints::complete(const motion::CheckpointWish& wish) {
  if (auto stays = check_stays_(wish.adapter); !stays) return Failure(std::move(stays).error());
  auto monitor = find_monitor_(wish.adapter);
  if (!monitor) return Failure(std::move(monitor).error());
  motion::CheckpointWish complete = wish;
  if (complete.monitor.empty()) complete.monitor = *std::move(monitor);
  return complete;
}

Result<void> Checkpoints::check_none_locked(const std::string& adapter) const {
  if (!runs_.contains(adapter)) return {};
  return fail(ErrorKind::kConflict, fmt::format("adapter {}: a checkpoint of its VM is under way", adapter));
}

Result<void> Checkpoints::check_none(const std::string& adapter) {
  const std::lock_guard lock(mutex_);
  return check_none_locked(adapter);
}

Result<std::unique_ptr<ByteStream>> Checkpoints::start(const motion::CheckpointWish& wish) {
  auto complete_wish = complete(wish);
  if (!complete_wish) return Failure(std::move(complete_wish).error());
  const std::string& adapter = wish.adapter;
  auto run = std::make_shared<Run>(*std::move(complete_wish), side_, patience_);
  const std::lock_guard lock(mutex_);
  if (auto none = check_none_locked(adapter); !none) return Failure(std::move(none).error());
  if (runs_.size() >= kMax)
    return fail(ErrorKind::kConflict,
                fmt::format("{} checkpoints are under way: wait until one is over", runs_.size()));
  if (auto begun = jobs_.start([run](const std::stop_token&) { run->lead(); }); !begun)
    return Failure(std::move(begun).error().in("adapter " + adapter));
  runs_.emplace(adapter, run);
  return std::make_unique<Stream>(*this, adapter, std::move(run));
}

Result<void> Checkpoints::finish(const std::string& adapter) {
  std::shared_ptr<Run> run;
  {
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(adapter);
    if (found == runs_.end())
      return fail(ErrorKind::kNotFound, fmt::format("there is no checkpoint of adapter {}", adapter));
    run = found->second;
  }
  return run->finish();
}

Result<motion::RestoreReport> Checkpoints::restore(const motion::CheckpointWish& wish,
                                                   std::string_view state) {
  auto complete_wish = complete(wish);
  if (!complete_wish) return Failure(std::move(complete_wish).error());
  const auto bytes = std::as_bytes(std::span(state));
  auto report = motion::Restore(*std::move(complete_wish), {bytes.begin(), bytes.end()}, side_, [this] {
                  return jobs_.is_stopping();
                }).run();
  if (!report) {
    events::tell(log::Level::kWarn, motion_of(wish.adapter), "adapter {}: its VM does not go on from {}: {}",
                 wish.adapter, wish.file, report.error().message);
    return Failure(as_conflict(std::move(report).error()));
  }
  events::tell(log::Level::kInfo, motion_of(wish.adapter),
               "adapter {}: its VM goes on from {} in QEMU {} (pid {}), after {} us", wish.adapter, wish.file,
               report->qemu.version, report->qemu.pid, microseconds_of(report->took));
  return report;
}

std::string Checkpoints::print_state(std::string_view state) {
  return device::print_state(std::as_bytes(std::span(state)));
}

}  // namespace pvrdma::moves
