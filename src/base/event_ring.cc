#include "base/event_ring.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/clean_text.h"
#include "base/log_writer.h"

namespace pvrdma::events {
namespace {

constinit EventRing newest_events;

// A part of the slots.
struct Part {
  std::size_t begin;
  std::size_t end;
};

Part part_of(Type type) {
  constexpr std::size_t kOperators = EventRing::kOfGuests;
  constexpr std::size_t kRest = kOperators + EventRing::kOfOperators;
  switch (type) {
    case Type::kAdapter:
    case Type::kPower:
      return {0, kOperators};
    case Type::kEdit:
    case Type::kFault:
    case Type::kMotion:
      return {kOperators, kRest};
    case Type::kCertificate:
    case Type::kHost:
    case Type::kLink:
    case Type::kPath:
    case Type::kShard:
    case Type::kStore:
      break;
  }
  return {kRest, EventRing::kSlots};
}

// The longest beginning of at most this many bytes that does not split a UTF-8 character.
std::string_view beginning_of(std::string_view text, std::size_t bytes) {
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) >> 6) == 0b10; };
  std::size_t end = bytes;
  while (end > 0 && bytes - end < 3 && continues(end)) --end;
  return text.substr(0, end);
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
  log::LineRoom room;
  const std::string_view text = log::format_line(room, format, args);
  if (log::enabled(level)) log::write(level, text);
  newest_events.append(level, subject, text);
}

template <std::size_t kBytes>
void EventRing::Text<kBytes>::assign(std::string_view from) {
  constexpr std::string_view kCut = "…";
  const bool is_cut = from.size() > kBytes;
  if (is_cut) from = beginning_of(from, kBytes - kCut.size());
  auto end = std::ranges::copy(from, bytes.begin()).out;
  if (is_cut) end = std::ranges::copy(kCut, end).out;
  count = static_cast<std::uint16_t>(end - bytes.begin());
}

template <std::size_t kBytes>
std::string EventRing::Text<kBytes>::clean() const {
  return clean_text({bytes.data(), count});
}

std::size_t EventRing::take_slot(Type type, std::uint64_t subject, std::uint64_t sequence) {
  const Part part = part_of(type);
  const auto is_before = [](const Place& a, const Place& b) {
    return a.held != b.held ? a.held > b.held : a.sequence < b.sequence;
  };
  std::size_t own = 0;
  std::size_t oldest_own = part.end;
  std::size_t chosen = part.begin;  // unused, or the oldest of the subject with the most
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const Place& place = places_[i];
    const bool is_used = places_[chosen].sequence != 0;
    if (is_used && (place.sequence == 0 || is_before(place, places_[chosen]))) chosen = i;
    if (place.sequence == 0 || place.subject != subject) continue;
    ++own;
    if (oldest_own == part.end || place.sequence < places_[oldest_own].sequence) oldest_own = i;
  }
  if (own >= kOfOneObject) chosen = oldest_own;
  const std::uint64_t given_up = std::exchange(places_[chosen], {sequence, subject, 0}).subject;
  const auto places = std::span(places_).subspan(part.begin, part.end - part.begin);
  for (const std::uint64_t each : {given_up, subject}) {
    const auto held = static_cast<std::size_t>(std::ranges::count(places, each, &Place::subject));
    for (Place& place : places) {
      if (place.subject == each) place.held = held;
    }
  }
  return chosen;
}

void EventRing::append(log::Level level, const Subject& subject, std::string_view text) noexcept {
  const std::uint64_t hash = hash_of(subject);
  const std::lock_guard lock(mutex_);
  const std::size_t index = take_slot(subject.type, hash, ++last_);
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
  return last_;
}

Page EventRing::page(std::optional<std::uint64_t> asked_after, std::size_t limit) const {
  std::uint64_t after = asked_after.value_or(0);
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
  if (found.size() > limit && !asked_after) {
    const auto first = found.end() - static_cast<std::ptrdiff_t>(limit);
    after = (first - 1)->first;
    found.erase(found.begin(), first);
  } else if (found.size() > limit) {
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
