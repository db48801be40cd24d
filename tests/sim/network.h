// Network: a transport that replaces the local one. It loses, duplicates, delays and reorders messages, is
// busy at times, and delivers messages in simulated time, whole or in pieces.
//
// It keeps copies of messages and payloads. `weather` may change at any time and applies to messages sent
// afterwards. Thread: the world's.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "sim/random.h"
#include "transport/transport.h"

namespace pvrdma::sim {

struct Weather {
  std::uint32_t drop_per_mille = 0;
  std::uint32_t duplicate_per_mille = 0;
  Duration delay_min{0};
  Duration delay_max{0};
  std::uint32_t refuse_per_mille = 0;  // requests that find it busy; it then stays busy for up to busy_max
  Duration busy_max{0};
  std::uint32_t part_per_mille = 0;    // requests of which it takes only a part
  std::uint32_t pieces_per_mille = 0;  // messages with bytes that arrive in pieces
  std::uint32_t torn_per_mille = 0;    // pieces that are cut off, together with the rest of the message
  bool immediate = false;  // delivers on the sender's stack, like the local path; nothing above applies
};

class Network final : public transport::Transport {
 public:
  explicit Network(std::uint64_t seed) : random_(seed) {}

  transport::PathKind kind() const override { return transport::PathKind::kLocal; }
  const transport::Counters& counters() const override { return counters_; }
  void open(const transport::Place& place, const verbs::Connection& connection, transport::Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const transport::Place& place, const verbs::Datagram& datagram,
                     const guestmem::SpanList& payload, transport::Traffic& traffic, Instant now) override;
  bool is_up(transport::HostId /*host*/) const override { return false; }
  void flush(Instant /*now*/) override {}

  Weather weather;

  // Nothing passes between the two VMs in either direction until heal().
  void cut(const verbs::Gid& a, const verbs::Gid& b) { cuts_.insert(std::minmax(a, b)); }
  void heal() { cuts_.clear(); }
  bool any_cut() const { return !cuts_.empty(); }

  // Loses all messages in flight between the two VMs, in both directions.
  void lose_all(const verbs::Gid& a, const verbs::Gid& b);

  // Messages in flight to `from` arrive at `to`, which replaces it.
  void redirect(const verbs::Engine* from, verbs::Engine& to);

  // When the next message arrives, or when a busy network takes requests again. Never: neither will happen.
  Instant next_event() const {
    const Instant arrival = under_way_.empty() ? Instant::never() : under_way_.begin()->first.first;
    return std::min(arrival, busy_until_);
  }
  // Delivers the messages that arrive by `now`, including those sent meanwhile.
  void deliver(Instant now);
  // True once after each busy time: the refused senders must be told.
  bool take_ready(Instant now);

  std::uint64_t dropped() const { return dropped_; }
  std::uint64_t doubled() const { return doubled_; }
  std::uint64_t refused() const { return refused_; }
  std::uint64_t torn() const { return torn_; }

 private:
  class SimulatedPath;
  struct Message {
    verbs::Engine* target;  // borrowed; outlives the message, unless redirected
    std::variant<verbs::Request, verbs::Response, verbs::Datagram> content;
    std::vector<std::byte> payload;
  };

  // The fewest requests taken between two busy times, so that a sender that always comes first is not always
  // refused.
  static constexpr std::uint64_t kTakenBetween = 40;

  template <typename Content>
  void accept(verbs::Engine& target, const Content& content, const guestmem::SpanList& payload, Instant now);
  std::uint32_t room(std::uint32_t wanted, Instant now);
  bool is_busy(Instant now);
  void hand_over(Message& message, Instant now);
  void hand_over_in_pieces(Message& message, Instant now);

  Random random_;
  transport::Counters counters_;
  std::map<std::pair<Instant, std::uint64_t>, Message> under_way_;  // by arrival, then by order of sending
  std::set<std::pair<verbs::Gid, verbs::Gid>> cuts_;
  Instant busy_until_ = Instant::never();  // never = not busy
  std::uint64_t taken_since_busy_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t doubled_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t torn_ = 0;
};

}  // namespace pvrdma::sim
