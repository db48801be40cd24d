#include "api/routes.h"

#include <memory>

#include "api/host_reads.h"
#include "api/openapi.h"
#include "api/relay_routes.h"
#include "api/watch.h"
#include "web/assets.h"

namespace pvrdma::api {
namespace {

Json openapi_schema(Components&) {
  return {{"type", "object"}};
}

}  // namespace

std::vector<std::string> features_of(const ApiParts& parts) {
  std::vector<std::string> features{"watch", "events"};
  if (parts.plane != nullptr) features.emplace_back("batch");
  if (parts.reads != nullptr && parts.reads->proof() == HostProof::kCertificates)
    features.emplace_back("relay");
  if (parts.injects_faults) features.emplace_back("faults");
  if (!web::assets().empty()) features.emplace_back("web");
  return features;
}

Router make_router(const ApiParts& parts) {
  Router router(parts.plane == nullptr ? Router::Membership::kAlone : Router::Membership::kCluster);
  add_daemon_routes(router, parts);
  add_watch_route(router, parts);
  add_event_route(router, parts);
  add_web_routes(router);
  add_process_routes(router, parts);
  add_budget_route(router, parts);
  add_shard_route(router, parts);
  add_capture_routes(router, parts);
  add_fault_routes(router, parts);
  add_checkpoint_routes(router, parts);
  add_cluster_routes(router, parts);
  add_host_routes(router, parts);
  add_switch_routes(router, parts);
  add_vm_routes(router, parts);
  add_batch_route(router, parts);
  add_motion_routes(router, parts);
  add_relay_routes(router, parts);
  auto text = std::make_shared<std::string>();
  router.add({"GET", "/openapi.json", "This description", nullptr, openapi_schema, [text](const Call&) {
                return Reply{200, *text};
              }});
  *text = openapi_json(router.routes(), parts.version);
  return router;
}

std::string host_name(const std::string& own, const std::string& name) {
  return name == "self" ? own : name;
}

Reply edit_and_show(const Configuration& configuration, const control::Plane::Edit& edit,
                    const std::function<Reply(const control::Inventory&)>& show) {
  if (const auto edited = configuration.edit(edit); !edited) return refuse(edited.error());
  return show(*configuration.inventory());
}

Reply edit_only(const Configuration& configuration, const control::Plane::Edit& edit) {
  return edit_and_show(configuration, edit, [](const control::Inventory&) { return ok("{}"); });
}

}  // namespace pvrdma::api
