// Network: a transport that loses, doubles, delays and reorders, and delivers when its clock says so.
//
// It keeps copies of messages and payloads. `weather` may change at any time; messages under way keep their
// fate. Thread: the world's.
#pragma once

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
  bool immediate = false;  // on the sender's stack, as the local path delivers: nothing of the above applies
};

class Network final : public transport::Transport {
 public:
  explicit Network(std::uint64_t seed) : random_(seed) {}

  std::string_view name() const override { return "simulated"; }
  const transport::Counters& counters() const override { return counters_; }
  std::unique_ptr<transport::Channel> open(verbs::Engine& peer) override;

  Weather weather;

  // Between the two hosts nothing passes in either direction, until heal().
  void cut(const verbs::Gid& a, const verbs::Gid& b) { cuts_.insert(std::minmax(a, b)); }
  void heal() { cuts_.clear(); }
  bool any_cut() const { return !cuts_.empty(); }

  // When the next message arrives; never when none is under way.
  Instant next_arrival() const {
    return under_way_.empty() ? Instant::never() : under_way_.begin()->first.first;
  }
  // Hands over what has arrived by `now`, also what is sent meanwhile.
  void deliver(Instant now);

  std::uint64_t dropped() const { return dropped_; }
  std::uint64_t doubled() const { return doubled_; }

 private:
  class SimulatedChannel;
  struct Message {
    verbs::Engine* target;  // borrowed: engines outlive the network's messages
    std::variant<verbs::Request, verbs::Response, verbs::Datagram> content;
    std::vector<std::byte> payload;
  };

  template <typename Content>
  void accept(verbs::Engine& target, const Content& content, const guestmem::SpanList& payload, Instant now);
  static void hand_over(Message& message, Instant now);

  Random random_;
  transport::Counters counters_;
  std::map<std::pair<Instant, std::uint64_t>, Message> under_way_;  // by arrival, then by order of sending
  std::set<std::pair<verbs::Gid, verbs::Gid>> cuts_;
  std::uint64_t sent_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t doubled_ = 0;
};

}  // namespace pvrdma::sim
