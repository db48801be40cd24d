// The cluster as this host sees it: the store, and the hosts that it is connected to.
#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"

namespace pvrdma::api {

void add_cluster_routes(Router& router, const ApiParts& parts) {
  router.add({.method = "GET",
              .path = "/v1/cluster",
              .summary = "The store, and the connections to other hosts",
              .body = nullptr,
              .answer = schema_for<ClusterAnswer>,
              .handler =
                  [parts](const Call&) {
                    const auto snapshot = parts.source.take_snapshot(snapshots::SnapshotDetail::kAdapters);
                    if (!snapshot) return refuse(snapshot.error());
                    return ok(text_of(ClusterAnswer{parts.plane->host(), parts.plane->store_state(),
                                                    snapshot->tcp, snapshot->hca}));
                  },
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
