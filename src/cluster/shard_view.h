// ShardView: the meaning of the cluster's inventory for one host: the adapters that it serves, what its
// fabric knows of other hosts, and what its transports between hosts may do.
//
// Pure, except that it reads the host's user database. Thread: values; HostIds as its owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
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

// Gives each host name a number, which is the same for as long as this object lives.
class HostIds {
 public:
  transport::HostId of(const std::string& host);

 private:
  std::map<std::string, transport::HostId> ids_;
};

struct ShardView {
  std::vector<adapters::WantedAdapter> adapters;
  fabric::View fabric;
  transport::TcpSettings tcp;
  transport::HcaSettings hca;
  std::map<std::string, std::uint32_t> switches;  // name -> id, as in SegmentId
  friend bool operator==(const ShardView&, const ShardView&) = default;
};

// The sockets of the VMs are files of the socket folder: a VM's name and this suffix.
inline constexpr std::string_view kSocketSuffix = ".sock";

// The view of `host`, which counts as alive whatever the inventory says. Equal inventories give equal views
// if `find` gives equal owners of sockets.
ShardView compute_view(const control::Inventory& inventory, const std::string& host,
                       const std::string& socket_folder, HostIds& ids, const FindOwner& find = find_owner);

}  // namespace pvrdma::cluster
