// Linger: keeps other hosts and their GIDs in use when their live records vanish for a reason that says
// nothing about them: this host could not reach the store, or could not until a moment ago, so that leases
// ran out unnoticed and everybody is still putting records back; or a host itself does not reach the store,
// or was too busy to keep its lease, while connections to it stand. Traffic between hosts does not need the
// store and goes on.
//
// What admins change counts at once all the same: a host that was removed, a VM that was removed, moved or
// put on another segment. So does a daemon that was started anew: what its last life held is gone.
//
// Pure: time is an argument. Thread: as its owner.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/time.h"
#include "control/model/inventory.h"

namespace pvrdma::cluster {

class Linger {
 public:
  // Whether connections to a host stand.
  using IsUp = std::function<bool(const std::string& host)>;

  // After the store was reached again, by this host or by the one whose records had vanished; or after the
  // connections to that one broke.
  static constexpr Duration kGrace = std::chrono::seconds(30);

  // `host` is this host's name.
  explicit Linger(std::string host) : host_(std::move(host)) {}

  // Whether the store is reached.
  void set_connected(bool connected, Instant now);

  // What to act on, `newest` being what the store said last.
  control::Inventory apply(const control::Inventory& newest, Instant now, const IsUp& is_up);

  // The last answer was not what the store said: apply() again before long.
  bool keeps() const { return keeps_; }

 private:
  void note_lapses(const control::Inventory& newest, Instant now, const IsUp& is_up);
  bool protects(const std::string& host, Instant now) const;
  bool belongs(const control::Inventory& inventory, const control::GidKey& key,
               const control::GidHolder& holder) const;

  const std::string host_;
  bool connected_ = true;
  Instant grace_end_{};
  bool keeps_ = false;
  // Hosts whose records vanished while connections to them stood: until when they are protected.
  std::map<std::string, Instant> lapsed_;
  // Of the last answer.
  std::map<std::string, control::LiveHost> live_hosts_;
  std::map<control::GidKey, control::GidHolder> gids_;
};

}  // namespace pvrdma::cluster
