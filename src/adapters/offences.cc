#include "adapters/offences.h"

#include <algorithm>

namespace pvrdma::adapters {

void Offences::note(const Offence& offence, Instant now) {
  if (offence.took < kLeast) return;
  forget_quiet(now);
  if (known_.size() >= kAdaptersMax && !known_.contains(offence.adapter))
    known_.erase(std::ranges::min_element(known_, {}, [](const auto& each) { return each.second.last; }));
  const auto [it, is_first] = known_.try_emplace(offence.adapter);
  Known& known = it->second;
  if (!is_first && known.due == Instant::never()) known.due = now;
  known.last = now;
  known.longest = std::max(known.longest, offence.took);
}

std::vector<Offence> Offences::due(Instant now) {
  forget_quiet(now);
  std::vector<Offence> found;
  for (const auto& [adapter, known] : known_) {
    if (known.due <= now) found.push_back({adapter, known.longest});
  }
  return found;
}

Instant Offences::next_due() const {
  Instant next = Instant::never();
  for (const auto& [adapter, known] : known_) next = std::min(next, known.due);
  return next;
}

void Offences::put_off(const std::string& adapter, Instant now) {
  const auto it = known_.find(adapter);
  if (it == known_.end()) return;
  Known& known = it->second;
  known.pause = std::clamp<Duration>(2 * known.pause, first_pause_, kWithin);
  known.due = now + known.pause;
}

void Offences::forget_quiet(Instant now) {
  std::erase_if(known_, [now](const auto& each) { return now - each.second.last > kWithin; });
}

}  // namespace pvrdma::adapters
