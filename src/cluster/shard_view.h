// ShardView: the meaning of the cluster's inventory for one host: the adapters that it serves, what its
// fabric knows of other hosts, and what its transports between hosts may do.
//
// Pure, except that it reads the host's user database. Thread: values; HostIds as its owner.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/wanted_adapter.h"
#include "base/result.h"
#include "base/socket_owner.h"
#include "control/model/inventory.h"
#include "fabric/view.h"
#include "transport/hca/hca.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace pvrdma::cluster {

// Gives each shard of each host a number, which is the same for as long as this object lives.
class HostIds {
 public:
  transport::HostId of(const std::string& host, transport::ShardNumber shard = {});
  // Whether that number is one of the host's.
  bool is_of(const std::string& host, transport::HostId id) const {
    return id.value - 1 < hosts_.size() && hosts_[id.value - 1] == host;
  }

 private:
  std::map<std::pair<std::string, transport::ShardNumber>, transport::HostId> ids_;
  std::vector<std::string> hosts_;  // by number, which counts from 1
};

struct ShardView {
  std::vector<adapters::WantedAdapter> adapters;
  std::set<std::string> adapters_of_host;  // the names of those of all its shards
  fabric::View fabric;                     // each shard of another host is a host there, as in `tcp`
  transport::TcpSettings tcp;
  transport::HcaSettings hca;
  std::map<std::string, std::uint32_t> switches;  // name -> id, as in SegmentId
  friend bool operator==(const ShardView&, const ShardView&) = default;
};

// Why messages to or from another shard than the first go by TCP although both hosts use their HCAs.
inline constexpr std::string_view kOtherShardReason =
    "that host runs an older release, whose HCA serves the first shard of a host only";

// The sockets of the VMs are files of the socket folder: a VM's name and this suffix.
inline constexpr std::string_view kSocketSuffix = ".sock";

// How many shards of that host its HCA serves. Empty: its release knows of the first shard of a host only.
std::optional<std::uint16_t> hca_shards_of(const control::Inventory& inventory, const std::string& host);

// The view of `host`, as if one shard served all its adapters (vm_shards.h). The host counts as alive
// whatever the inventory says. Equal inventories give equal views if `find` gives equal owners of sockets.
ShardView compute_view(const control::Inventory& inventory, const std::string& host,
                       const std::string& socket_folder, HostIds& ids, const FindOwner& find = find_owner);

}  // namespace pvrdma::cluster
