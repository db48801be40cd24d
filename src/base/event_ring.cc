#include "base/event_ring.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <utility>

#include "base/clean_text.h"
#include "base/log_writer.h"

namespace pvrdma::events {
namespace {

constinit EventRing newest_events;

bool is_of_guests(Type type) {
  return type == Type::kPower || type == Type::kAdapter;
}

// FNV-1a. Two subjects with the same hash only share their slots.
std::uint64_t hash_of(const Subject& subject) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3U; };
  add(static_cast<unsigned char>(subject.type));
  add(static_cast<unsigned char>(subject.kind));
  for (const char c : subject.object) add(static_cast<unsigned char>(c));
  return hash;
}

std::uint64_t now_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

EventRing& newest() {
  return newest_events;
}

void tell_formatted(log::Level level, const Subject& subject, fmt::string_view format,
                    fmt::format_args args) noexcept {
  std::array<char, log::LogWriter::kLineBytes> line;
  std::string_view text(format.data(), format.size());  // better than no event
  try {
    const auto end = fmt::vformat_to_n(line.data(), line.size(), format, args);
    text = {line.data(), std::min(end.size, line.size())};
  } catch (const std::exception&) {
  }
  if (log::enabled(level)) log::write(level, text);
  newest_events.append(level, subject, text);
}

template <std::size_t kBytes>
void EventRing::Text<kBytes>::assign(std::string_view from) {
  count = static_cast<std::uint16_t>(std::min(from.size(), kBytes));
  std::memcpy(bytes.data(), from.data(), count);
}

template <std::size_t kBytes>
std::string EventRing::Text<kBytes>::clean() const {
  return clean_text({bytes.data(), count});
}

std::size_t EventRing::choose_slot(Type type, std::uint64_t subject) const {
  const std::size_t begin = is_of_guests(type) ? 0 : kOfGuests;
  const std::size_t end = is_of_guests(type) ? kOfGuests : kSlots;
  std::size_t oldest = begin;
  std::size_t oldest_own = end;
  std::size_t own = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const Place& place = places_[i];
    if (place.sequence < places_[oldest].sequence) oldest = i;
    if (place.sequence == 0 || place.subject != subject) continue;
    ++own;
    if (oldest_own == end || place.sequence < places_[oldest_own].sequence) oldest_own = i;
  }
  return own < kOfOneObject ? oldest : oldest_own;
}

void EventRing::append(log::Level level, const Subject& subject, std::string_view text) noexcept {
  const std::uint64_t hash = hash_of(subject);
  const std::lock_guard lock(mutex_);
  const std::size_t index = choose_slot(subject.type, hash);
  places_[index] = {++last_, hash};
  Slot& slot = slots_[index];
  slot.at_ms = now_ms();
  slot.level = level;
  slot.type = subject.type;
  slot.kind = subject.kind;
  slot.object.assign(subject.object);
  slot.initiator.assign(subject.initiator);
  slot.text.assign(text);
}

std::uint64_t EventRing::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

Page EventRing::page(std::uint64_t after, std::size_t limit) const {
  std::vector<std::pair<std::uint64_t, std::size_t>> found;  // numbers and slots
  found.reserve(kSlots);
  Page page;
  {
    const std::lock_guard lock(mutex_);
    page.last = last_;
    if (after > last_) after = 0;
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (places_[i].sequence > after) found.emplace_back(places_[i].sequence, i);
    }
  }
  std::ranges::sort(found);
  if (found.size() > limit) {
    found.resize(limit);
    page.last = limit == 0 ? after : found.back().first;
  }
  page.events.reserve(found.size());
  for (const auto& [sequence, index] : found) {
    Slot slot;
    {
      const std::lock_guard lock(mutex_);  // for each: append() must not wait for all
      if (places_[index].sequence != sequence) continue;
      slot = slots_[index];
    }
    page.events.push_back({sequence, slot.at_ms, slot.level, slot.type, slot.kind, slot.object.clean(),
                           slot.initiator.clean(), slot.text.clean()});
  }
  page.lost = page.last - after - page.events.size();
  return page;
}

}  // namespace pvrdma::events
