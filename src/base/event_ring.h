// EventRing: the newest events, each with a number, in memory that is never allocated.
//
// Guests can cause events of some types. These have half of the slots, so that guests never displace other
// events. Within each half the events of one type about one object have at most kOfOneObject slots, so that
// one object, for instance the VM of a hostile guest, does not displace those of the others.
//
// Thread: any. append() waits at most while another thread copies one event.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
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
  std::uint64_t lost = 0;     // how many events before `last` are no longer held
};

class EventRing {
 public:
  static constexpr std::size_t kSlots = 1024;
  static constexpr std::size_t kOfGuests = kSlots / 2;
  static constexpr std::size_t kOfOneObject = 32;
  static constexpr std::size_t kNameBytes = 64;
  static constexpr std::size_t kTextBytes = 512;  // the rest is cut off

  void append(log::Level level, const Subject& subject, std::string_view text) noexcept;

  // The first `limit` events after this number. A number of which there was no event yet is one of an earlier
  // process: the page begins at the first event. Names and texts are harmless (base/clean_text.h).
  Page page(std::uint64_t after, std::size_t limit) const;
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

  std::size_t choose_slot(Type type, std::uint64_t subject) const;

  mutable std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::array<Place, kSlots> places_{};
  std::array<Slot, kSlots> slots_{};
};

// Where tell() puts the events of this process.
EventRing& newest();

}  // namespace pvrdma::events
