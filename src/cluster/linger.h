// Linger: keeps other hosts and their GIDs in use if their live records vanish for a reason that does not
// concern them. One such reason is that this host cannot reach the store, or could not until a moment ago:
// leases ended meanwhile, and all hosts are still restoring their records. Another is that a host cannot
// reach the store, or was too busy to renew its lease, while connections to it are up. Traffic between hosts
// does not need the store and goes on.
//
// Changes by administrators still take effect at once: a removed host, or a VM that is removed, moved or
// attached to another segment. So does the restart of a daemon, because its earlier records are obsolete.
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
  // Whether connections to a host are up.
  using IsUp = std::function<bool(const std::string& host)>;

  // How long records are kept after the store was reached again (by this host, or by the host whose records
  // vanished), or after the connections to that host broke.
  static constexpr Duration kGrace = std::chrono::seconds(30);

  // `host` is this host's name.
  explicit Linger(std::string host) : host_(std::move(host)) {}

  // Whether this host reaches the store.
  void set_connected(bool connected, Instant now);

  // The inventory to act on. `newest` is the store's latest.
  control::Inventory apply(const control::Inventory& newest, Instant now, const IsUp& is_up);

  // The last result of apply() differs from the store's inventory, so call apply() again soon.
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
  // Hosts whose records vanished while connections to them were up, and how long they are protected.
  std::map<std::string, Instant> lapsed_;
  // Part of the last result.
  std::map<std::string, control::LiveHost> live_hosts_;
  std::map<control::GidKey, control::GidHolder> gids_;
};

}  // namespace pvrdma::cluster
