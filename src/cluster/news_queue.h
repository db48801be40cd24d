// NewsQueue: news for the membership's thread. The shard reports its ports, its VMMs and the hosts that it
// reaches; the plane reports the store's state.
//
// All news describes a current state, so at most one item of each kind or key waits (keyed_news.h). What this
// host's adapters can hold at once bounds the queue, and it is never full.
//
// Thread: wait() one; everything else any, and blocks no longer than the hand-over of kBatch changes takes.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "base/time.h"
#include "cluster/keyed_news.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::cluster {

struct GidBinding {
  transport::SegmentId segment;
  verbs::Gid gid;
  friend auto operator<=>(const GidBinding&, const GidBinding&) = default;
};

// A port of this host, and the shard that it is on.
struct GidPort {
  std::string name;
  transport::ShardNumber shard;
  bool has_moved = false;  // to this shard, since the GID was bound
  friend bool operator==(const GidPort&, const GidPort&) = default;
};

// From a shard of this host to a shard of another one.
struct ShardLink {
  transport::ShardNumber from;
  transport::HostId to;
  friend auto operator<=>(const ShardLink&, const ShardLink&) = default;
};

using HostNews = KeyedNews<ShardLink, std::monostate>;     // set: connections are up
using GidNews = KeyedNews<GidBinding, GidPort>;            // set: bound, to that port
using PowerNews = KeyedNews<std::string, std::monostate>;  // by VM; set: the VM is on

// Changes since the last call.
struct News {
  bool inventory = false;        // the plane has a newer one
  bool store_connected = false;  // the current state, changed or not
  bool store_was_lost = false;   // since the last call, even for a moment
  HostNews::Changes hosts;
  GidNews::Changes gids;
  PowerNews::Changes vms;
};

class NewsQueue {
 public:
  static constexpr std::size_t kBatch = 64;  // the most changes of hosts, of GIDs, and of VMs in one News

  void inventory_changed();
  // Until the first call the store counts as not connected.
  void store_connected(bool connected);
  void host_up(const ShardLink& link, bool up);
  void gid_bound(const GidBinding& binding, const GidPort& port);
  void gid_unbound(const GidBinding& binding);
  // Its adapter is on that shard now. Allocates nothing.
  void gid_moved(const GidBinding& binding, transport::ShardNumber shard) noexcept;
  void powered(const std::string& vm, bool on);

  // Returns waiting news, or news that comes within `longest`, or otherwise a News without changes. nullopt:
  // the queue is closed.
  std::optional<News> wait(Duration longest);

  // Closes the queue: waiting and later news is dropped. Wakes wait().
  void close();

 private:
  template <typename Change>
  void tell(Change change);
  bool has_news() const;

  std::mutex mutex_;
  std::condition_variable arrived_;
  bool closed_ = false;
  bool inventory_ = false;
  bool connected_ = false;
  bool was_lost_ = false;
  bool store_changed_ = false;
  HostNews hosts_;
  GidNews gids_;
  PowerNews vms_;
};

}  // namespace pvrdma::cluster
