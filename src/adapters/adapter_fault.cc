#include "adapters/adapter_fault.h"

#include <utility>

namespace pvrdma::adapters {
namespace {

// The most connections of each path, and the most late messages. Anything beyond that passes without faults.
constexpr std::size_t kPathsMax = 4096;
constexpr std::size_t kMessagesMax = 128;

transport::FaultSettings settings_of(const FaultWish& wish) {
  return {.drop_ppm = wish.drop_ppm,
          .duplicate_ppm = wish.duplicate_ppm,
          .delay_ppm = wish.delay_ppm,
          .reorder_ppm = wish.reorder_ppm,
          .corrupt_ppm = wish.corrupt_ppm,
          .late_max = std::chrono::milliseconds(wish.late_ms)};
}

}  // namespace

std::shared_ptr<AdapterFault> AdapterFault::create(std::uint64_t id, const FaultWish& wish,
                                                   const Paths& paths, std::shared_ptr<ReaperQueue> queue) {
  return {new AdapterFault(id, wish, paths), [queue = std::move(queue)](AdapterFault* fault) {
            queue->release(std::unique_ptr<Reapable>(fault));
          }};
}

AdapterFault::AdapterFault(std::uint64_t id, const FaultWish& wish, const Paths& paths)
    : id_(id),
      wish_(wish),
      roce_(paths.roce),
      frames_(settings_of(wish), wish.seed.value_or(0), kMessagesMax, paths.clock) {
  for (const transport::PathKind kind : {transport::PathKind::kLocal, transport::PathKind::kTcp}) {
    transport::Transport* inner = paths.transports.find(kind);
    if (inner == nullptr) continue;
    const transport::FaultOptions options{
        .seed = wish.seed.value_or(0), .paths_max = kPathsMax, .messages_max = kMessagesMax};
    faults_.push_back(std::make_unique<transport::Fault>(*inner, paths.inbound, options));
    faults_.back()->configure(settings_of(wish));
    detours_.use(*faults_.back());
  }
}

void AdapterFault::install(fabric::Port& port, const verbs::Engine& engine, shard::Loop& loop) {
  for (const auto& each : faults_) loop.add(*each);
  if (roce_ != nullptr) {
    loop.add(frames_);
    roce_->set_filter(engine, &frames_);
  }
  port.set_detours(&detours_);
}

void AdapterFault::remove(fabric::Port& port, const verbs::Engine& engine, shard::Loop& loop) {
  port.set_detours(nullptr);
  if (roce_ != nullptr) {
    roce_->set_filter(engine, nullptr);
    loop.remove(frames_);
  }
  for (const auto& each : faults_) {
    loop.remove(*each);
    each->close_paths();
  }
}

void AdapterFault::deliver_all(Instant now) {
  for (const auto& each : faults_) each->deliver_all(now);
  frames_.deliver_all();
}

void AdapterFault::forget(const verbs::Engine& engine) {
  for (const auto& each : faults_) each->forget(engine);
}

FaultState AdapterFault::state() const {
  return {wish_, id_, counts()};
}

FaultCounts AdapterFault::counts() const {
  FaultCounts counts;
  const auto add = [&counts](const transport::FaultCounters& one) {
    counts.messages += one.messages;
    counts.dropped += one.dropped;
    counts.duplicated += one.duplicated;
    counts.delayed += one.delayed;
    counts.reordered += one.reordered;
    counts.corrupted += one.corrupted;
  };
  for (const auto& each : faults_) add(each->faults());
  add(frames_.faults());
  return counts;
}

}  // namespace pvrdma::adapters
