// EventRing: the newest events, each with a number, in memory that is never allocated.
//
// The slots have three parts, by the types of events: what guests can cause, what operators and motions
// cause, and the rest. Events of one part never displace those of another. Within a part the events of one
// type about one object have at most kOfOneObject slots. If the part is full, the object with the most events
// gives up its oldest. So a few objects, for instance the VMs of a hostile tenant, do not displace the
// events of the others.
//
// Thread: any. append() waits at most while other threads look through the events' numbers or copy one
// event. last() waits for nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/events.h"

namespace pvrdma::events {

struct Event {
  std::uint64_t sequence = 0;  // 1 for the first of this process
  std::uint64_t at_ms = 0;     // since 1970
  log::Level level{};
  Type type{};
  Kind kind{};
  std::string object;
  std::string initiator;
  std::string text;
};

struct Page {
  std::vector<Event> events;  // by their numbers
  std::uint64_t last = 0;     // where the next page begins: after this number
  std::uint64_t lost = 0;     // how many events from the page's begin to `last` are no longer held
};

class EventRing {
 public:
  static constexpr std::size_t kSlots = 1024;
  static constexpr std::size_t kOfGuests = kSlots / 2;
  static constexpr std::size_t kOfOperators = kSlots / 4;
  static constexpr std::size_t kOfOneObject = 32;
  static constexpr std::size_t kNameBytes = 64;
  static constexpr std::size_t kTextBytes = 1024;  // of a longer one the end is replaced by "…"

  void append(log::Level level, const Subject& subject, std::string_view text) noexcept;

  // The first `limit` events after this number; nullopt: the newest `limit` ones. A number of which there was
  // no event yet is one of an earlier process: the page begins at the first event. Names and texts are
  // harmless (base/clean_text.h).
  Page page(std::optional<std::uint64_t> after, std::size_t limit) const;
  // The number of the newest event. 0: there was none.
  std::uint64_t last() const;

 private:
  template <std::size_t kBytes>
  struct Text {
    void assign(std::string_view from);
    std::string clean() const;

    std::array<char, kBytes> bytes;
    std::uint16_t count;
  };
  // All zero: unused.
  struct Place {
    std::uint64_t sequence;
    std::uint64_t subject;  // hash of type, kind and object
    std::size_t held;       // how many places have this subject
  };
  struct Slot {
    std::uint64_t at_ms;
    log::Level level;
    Type type;
    Kind kind;
    Text<kNameBytes> object;
    Text<kNameBytes> initiator;
    Text<kTextBytes> text;
  };

  // Returns the index of the slot for a new event, whose place now has this number and subject.
  std::size_t take_slot(Type type, std::uint64_t subject, std::uint64_t sequence);

  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> last_ = 0;  // changes only with the mutex held
  std::array<Place, kSlots> places_{};
  std::array<Slot, kSlots> slots_{};
};

// Where tell() puts the events of this process.
EventRing& newest();

}  // namespace pvrdma::events
