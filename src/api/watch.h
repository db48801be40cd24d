// Watches: the streams of GET /v1/watch. A stream is a sequence of server-sent events: first `hello`, the
// inventory, the store and the motions, then each of these again when it has changed, each second the
// counters of this host's adapters, and what happens (base/events.h). docs/api.md describes them.
//
// All watchers share one Sampler: they cost the shard one snapshot a second together, and nothing while there
// is no watcher.
//
// Thread: a Sampler any but the shard's; a Watch one reader's.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/places.h"
#include "api/routes.h"
#include "base/byte_stream.h"

namespace pvrdma::api {

// Instead of a longer inventory a watcher is told that there is a newer one.
inline constexpr std::size_t kWatchedBytesMax = 256 * 1024;

class Sampler {
 public:
  // What watchers are told of, in the order of the first events.
  enum class Topic : std::uint8_t { kInventory, kStore, kMotions, kStats };
  static constexpr std::size_t kTopics = 4;

  // The newest event about a topic, as it is sent. Version 0: there has been none.
  struct Event {
    std::uint64_t version = 0;
    std::shared_ptr<const std::string> text;
  };
  using Events = std::array<Event, kTopics>;

  // What `parts` refers to is borrowed.
  explicit Sampler(const ApiParts& parts);

  std::string hello() const;  // the first event of a stream
  const events::EventRing& event_ring() const { return parts_.event_ring; }
  // Looks at the inventory at each call, at the rest once a second. Blocks for a bounded time.
  Events newest();

 private:
  using Time = std::chrono::steady_clock::time_point;

  void sample();
  void look_at_inventory();
  // Makes an event if `what` has changed.
  void tell(Topic topic, std::string_view event, const std::string& what);

  const ApiParts parts_;
  std::mutex mutex_;
  Time next_sample_{};
  std::vector<adapters::AdapterTrouble> not_served_;
  std::shared_ptr<const control::Inventory> seen_;  // the newest event shows it; null: make the event again
  std::array<std::string, kTopics> told_;
  Events events_;
};

// Of a listener. One client may not take all: all browsers behind one `ssh -L` are one client.
inline constexpr std::size_t kWatchersMax = 6;
inline constexpr std::size_t kWatchersOfClientMax = 4;

class Watch final : public ByteStream {
 public:
  // Tells the events after this number. `place` is that of the watcher; null: there is no limit.
  Watch(std::shared_ptr<Sampler> sampler, std::unique_ptr<const Places::Place> place,
        std::uint64_t events_after);

  bool read(std::string& out) override;

 private:
  void tell_events(std::string& out);

  const std::shared_ptr<Sampler> sampler_;
  const std::unique_ptr<const Places::Place> place_;
  bool greeted_ = false;
  std::array<std::uint64_t, Sampler::kTopics> seen_{};  // versions
  std::uint64_t events_after_;                          // the number of the last event that was told
  std::chrono::steady_clock::time_point last_{};        // when something was sent
};

void add_watch_route(Router& router, const ApiParts& parts);

}  // namespace pvrdma::api
