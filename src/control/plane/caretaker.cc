#include "control/plane/caretaker.h"

namespace pvrdma::control {

std::optional<std::uint64_t> Caretaker::look(std::uint64_t revision, Instant now) {
  put_off(now);
  if (!seen_.empty() && revision < seen_.back().revision) {  // another store has replaced it
    seen_.clear();
    forgotten_ = 0;
  }
  std::optional<std::uint64_t> wanted;
  if (!seen_.empty() && revision - forgotten_ > kRevisionsMax) wanted = seen_.back().revision;
  while (!seen_.empty() && now - seen_.front().at >= kKeep) {
    if (!wanted) wanted = seen_.front().revision;
    seen_.pop_front();
  }
  if (forgotten_ == 0) forgotten_ = revision;  // revisions from before the first look count as new
  seen_.push_back({now, revision});
  if (!wanted || *wanted <= forgotten_) return std::nullopt;
  forgotten_ = *wanted;
  return wanted;
}

std::string caretaker_of(const Inventory& inventory) {
  return inventory.live_hosts.empty() ? std::string() : inventory.live_hosts.begin()->first;
}

}  // namespace pvrdma::control
