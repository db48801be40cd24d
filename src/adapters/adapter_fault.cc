#include "adapters/adapter_fault.h"

#include <utility>

namespace pvrdma::adapters {
namespace {

// Of each path's connections and of what is late at a time; beyond that nothing is injected.
constexpr std::size_t kPathsMax = 4096;
constexpr std::size_t kMessagesMax = 128;

transport::FaultSettings settings_of(const control::FaultWish& wish) {
  return {.drop_ppm = wish.drop_ppm,
          .duplicate_ppm = wish.duplicate_ppm,
          .delay_ppm = wish.delay_ppm,
          .reorder_ppm = wish.reorder_ppm,
          .corrupt_ppm = wish.corrupt_ppm,
          .late_max = std::chrono::milliseconds(wish.late_ms)};
}

}  // namespace

std::shared_ptr<AdapterFault> AdapterFault::create(std::uint64_t id, const control::FaultWish& wish,
                                                   const fabric::Transports& transports,
                                                   transport::Inbound& inbound,
                                                   std::shared_ptr<ReaperQueue> queue) {
  return {new AdapterFault(id, wish, transports, inbound), [queue = std::move(queue)](AdapterFault* fault) {
            queue->release(std::unique_ptr<Reapable>(fault));
          }};
}

AdapterFault::AdapterFault(std::uint64_t id, const control::FaultWish& wish,
                           const fabric::Transports& transports, transport::Inbound& inbound)
    : id_(id), wish_(wish) {
  for (const transport::PathKind kind : {transport::PathKind::kLocal, transport::PathKind::kTcp}) {
    transport::Transport* inner = transports.find(kind);
    if (inner == nullptr) continue;
    const transport::FaultOptions options{
        .seed = wish.seed.value_or(0), .paths_max = kPathsMax, .messages_max = kMessagesMax};
    faults_.push_back(std::make_unique<transport::Fault>(*inner, inbound, options));
    faults_.back()->configure(settings_of(wish));
    detours_.use(*faults_.back());
  }
}

void AdapterFault::install(fabric::Port& port, shard::Loop& loop) {
  for (const auto& each : faults_) loop.add(*each);
  port.set_detours(&detours_);
}

void AdapterFault::remove(fabric::Port& port, shard::Loop& loop) {
  port.set_detours(nullptr);
  for (const auto& each : faults_) {
    loop.remove(*each);
    each->close_paths();
  }
}

void AdapterFault::deliver_all(Instant now) {
  for (const auto& each : faults_) each->deliver_all(now);
}

void AdapterFault::forget(const verbs::Engine& engine) {
  for (const auto& each : faults_) each->forget(engine);
}

control::FaultState AdapterFault::state() const {
  control::FaultState state{id_, wish_, {}};
  for (const auto& each : faults_) {
    const transport::FaultCounters& one = each->faults();
    state.counts.messages += one.messages;
    state.counts.dropped += one.dropped;
    state.counts.duplicated += one.duplicated;
    state.counts.delayed += one.delayed;
    state.counts.reordered += one.reordered;
    state.counts.corrupted += one.corrupted;
  }
  return state;
}

}  // namespace pvrdma::adapters
