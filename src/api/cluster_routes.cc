// The cluster as this host sees it: the store, and the hosts that it is connected to.
#include <algorithm>
#include <vector>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"
#include "control/model/rules.h"

namespace pvrdma::api {
namespace {

std::vector<ClusterHost> hosts_of(const control::Inventory& inventory, const std::string& self) {
  std::vector<ClusterHost> hosts;
  const bool is_alone = inventory.hosts.size() == 1;  // no host needs to reach it
  for (const auto& [name, host] : inventory.hosts) {
    hosts.push_back({name, name == self, is_alone ? "" : control::why_unreachable(inventory, name)});
  }
  return hosts;
}

// A cluster without RDMA NICs lacks nothing.
bool has_rdma_devices(const control::Inventory& inventory) {
  return std::ranges::any_of(inventory.live_hosts,
                             [](const auto& host) { return !host.second.rdma_devices.empty(); });
}

Reply show_cluster(const ApiParts& parts) {
  auto snapshot = parts.source.take_snapshot(snapshots::SnapshotDetail::kAdapters);
  if (!snapshot) return refuse(snapshot.error());
  const auto inventory = parts.plane->inventory();
  if (snapshot->hca.device.empty() && !has_rdma_devices(*inventory)) snapshot->hca.trouble.clear();
  return ok(text_of(ClusterAnswer{parts.plane->host(), hosts_of(*inventory, parts.plane->host()),
                                  parts.plane->store_state(), snapshot->tcp, snapshot->hca}));
}

}  // namespace

void add_cluster_routes(Router& router, const ApiParts& parts) {
  router.add({.method = "GET",
              .path = "/v1/cluster",
              .summary = "The store, and the connections to other hosts",
              .body = nullptr,
              .answer = schema_for<ClusterAnswer>,
              .handler = [parts](const Call&) { return show_cluster(parts); },
              .of_cluster = true});
  router.add({.method = "POST",
              .path = "/v1/hca/check",
              .summary = "Measures an RDMA NIC of this host, in loopback, for some seconds",
              .body = schema_for<transport::HcaCheckWish>,
              .answer = schema_for<transport::HcaCheck>,
              .handler =
                  [parts](const Call& call) {
                    const auto wish = body_of<transport::HcaCheckWish>(call);
                    if (!wish) return refuse(wish.error());
                    const auto checked = parts.hca_checker.check(*wish);
                    return checked ? ok(text_of(*checked)) : refuse(checked.error());
                  },
              .of_cluster = true});
}

}  // namespace pvrdma::api
