// HostView: what the cluster's inventory means for one host: which adapters it serves, what its fabric
// knows of the others, and what its transports between hosts may do.
//
// Pure, but for the host's user database. Thread: values; HostIds as its owner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
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

// Numbers hosts by name: the same name, the same number, for as long as it lives.
class HostIds {
 public:
  transport::HostId of(const std::string& host);

 private:
  std::map<std::string, transport::HostId> ids_;
};

struct HostView {
  std::vector<adapters::WantedAdapter> adapters;
  fabric::View fabric;
  transport::TcpSettings tcp;
  transport::HcaSettings hca;
  std::map<std::string, std::uint32_t> switches;  // the id of each, as SegmentId has it, by name
  friend bool operator==(const HostView&, const HostView&) = default;
};

using FindOwner = std::function<Result<SocketOwner>(const std::string& user, const std::string& group)>;

// For `host`, which counts as alive whatever the inventory says. Equal inventories give equal views, as far
// as `find` gives equal owners of sockets.
HostView compute_view(const control::Inventory& inventory, const std::string& host,
                      const std::string& socket_folder, HostIds& ids, const FindOwner& find = find_owner);

// GIDs as the store has them: 32 lower-case hexadecimal digits.

}  // namespace pvrdma::cluster
