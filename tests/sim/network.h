// Network: a transport in the place of the local one that loses, doubles, delays, reorders and has no room,
// and delivers when its clock says so, whole or in pieces.
//
// It keeps copies of messages and payloads. `weather` may change at any time; messages under way keep their
// fate. Thread: the world's.
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
  std::uint32_t refuse_per_mille = 0;  // requests that find it busy; it stays so for up to busy_max
  Duration busy_max{0};
  std::uint32_t part_per_mille = 0;    // pieces of which it takes only some bytes
  std::uint32_t pieces_per_mille = 0;  // messages with bytes that arrive in pieces
  std::uint32_t torn_per_mille = 0;    // pieces whose bytes do not come, nor what follows of the message
  bool immediate = false;  // on the sender's stack, as the local path delivers: nothing of the above applies
};

class Network final : public transport::Transport {
 public:
  explicit Network(std::uint64_t seed) : random_(seed) {}

  transport::PathKind kind() const override { return transport::PathKind::kLocal; }
  const transport::Counters& counters() const override { return counters_; }
  void open(const transport::Place& place, const verbs::Connection& connection, transport::Traffic& traffic,
            verbs::PathSlot& slot) override;
  void send_datagram(const transport::Place& place, const verbs::Datagram& datagram,
                     const guestmem::SpanList& payload, transport::Traffic& traffic, Instant now) override;
  bool is_up(transport::HostId /*host*/) const override { return false; }
  void flush(Instant /*now*/) override {}

  Weather weather;

  // Between the two VMs nothing passes in either direction, until heal().
  void cut(const verbs::Gid& a, const verbs::Gid& b) { cuts_.insert(std::minmax(a, b)); }
  void heal() { cuts_.clear(); }
  bool any_cut() const { return !cuts_.empty(); }

  // What is under way between the two VMs, in either direction, is lost.
  void lose_all(const verbs::Gid& a, const verbs::Gid& b);

  // What is under way to an engine arrives at the one that took its place.
  void redirect(const verbs::Engine* from, verbs::Engine& to);

  // When the next message arrives, or a busy network takes requests again; never when nothing is to come.
  Instant next_event() const {
    const Instant arrival = under_way_.empty() ? Instant::never() : under_way_.begin()->first.first;
    return std::min(arrival, busy_until_);
  }
  // Hands over what has arrived by `now`, also what is sent meanwhile.
  void deliver(Instant now);
  // True once after each time of being busy: who was refused is to be told.
  bool take_ready(Instant now);

  std::uint64_t dropped() const { return dropped_; }
  std::uint64_t doubled() const { return doubled_; }
  std::uint64_t refused() const { return refused_; }
  std::uint64_t torn() const { return torn_; }

 private:
  class SimulatedPath;
  struct Message {
    verbs::Engine* target;  // borrowed: outlives the message, or it is redirected
    std::variant<verbs::Request, verbs::Response, verbs::Datagram> content;
    std::vector<std::byte> payload;
  };

  // Requests taken from one time of being busy to the next: whoever comes first may not always find it so.
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
