// NewsQueue: what the membership's thread is told by everybody else: by the shard what its ports and VMMs do
// and which hosts it reaches, by the plane what the store says.
//
// All news say how something is now, so those that wait are one of each kind, or one of each key
// (keyed_news.h): the queue is bounded by what this host's adapters can hold at once, and is never full.
//
// Thread: wait() one; everything else any, and blocks for no longer than kBatch changes take to hand over.
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

using HostNews = KeyedNews<transport::HostId, std::monostate>;  // set: connections to the host stand
using GidNews = KeyedNews<GidBinding, std::string>;             // set: bound; to the port of this name
using PowerNews = KeyedNews<std::string, std::monostate>;       // by VM; set: it is on

// What is otherwise than at the last look.
struct News {
  bool inventory = false;        // the plane has a newer one
  bool store_connected = false;  // as it is now, changed or not
  bool store_was_lost = false;   // since the last look, and be it for a moment
  HostNews::Changes hosts;
  GidNews::Changes gids;
  PowerNews::Changes vms;
};

class NewsQueue {
 public:
  static constexpr std::size_t kBatch = 64;  // changes of hosts, of GIDs, of VMs in one News

  void inventory_changed();
  // Until the first call it is not connected.
  void store_connected(bool connected);
  void host_up(transport::HostId host, bool up);
  void gid_bound(const GidBinding& binding, const std::string& port);
  void gid_unbound(const GidBinding& binding);
  void powered(const std::string& vm, bool on);

  // The news that wait, or those that come within `longest`; when none do, News without changes. nullopt: the
  // queue is closed.
  std::optional<News> wait(Duration longest);

  // Ends it: news that wait are not wanted any more, later ones are ignored. Wakes wait().
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
