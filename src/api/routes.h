// The API's routes by resource. Each function adds its resource's routes to a Router.
//
// Thread: once, before the API answers; the handlers run on the API's threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adapters/captures.h"
#include "adapters/faults.h"
#include "adapters/links.h"
#include "adapters/placement.h"
#include "api/configuration.h"
#include "api/router.h"
#include "base/event_ring.h"
#include "base/socket_owner.h"
#include "control/plane/plane.h"
#include "motion/checkpoint_service.h"
#include "motion/motion_service.h"
#include "motion/upgrade_service.h"
#include "snapshots/snapshot.h"
#include "tls/certificates.h"
#include "transport/hca/checker.h"

namespace pvrdma::api {

class HostReads;  // host_reads.h

// The port on which hosts reach each other. The firewall ruleset opens it.
inline constexpr std::uint16_t kPvrdmaPort = 28250;

// The objects that handlers use. All are borrowed and outlive the router.
struct ApiParts {
  std::string version;
  snapshots::SnapshotSource& source;
  adapters::Links& links;
  adapters::Captures& captures;
  adapters::Faults& faults;
  motion::UpgradeService& upgrades;
  motion::CheckpointService& checkpoints;
  adapters::Placement& placement;
  transport::HcaChecker& hca_checker;
  // All null: the daemon is not a member of a cluster.
  control::Plane* plane = nullptr;
  motion::MotionService* motions = nullptr;
  HostReads* reads = nullptr;
  FindOwner find_owner = pvrdma::find_owner;
  std::string sysfs = "/sys";
  bool injects_faults = false;
  std::string why_one_shard;  // control::why_one_shard()
  const events::EventRing& event_ring = events::newest();
  // Called when the API answers.
  std::function<std::vector<tls::CertificateState>()> certificates = [] {
    return std::vector<tls::CertificateState>();
  };
};

void add_daemon_routes(Router& router, const ApiParts& parts);
void add_web_routes(Router& router);
void add_event_route(Router& router, const ApiParts& parts);
void add_process_routes(Router& router, const ApiParts& parts);
void add_budget_route(Router& router, const ApiParts& parts);
void add_shard_route(Router& router, const ApiParts& parts);
void add_capture_routes(Router& router, const ApiParts& parts);
void add_fault_routes(Router& router, const ApiParts& parts);
void add_checkpoint_routes(Router& router, const ApiParts& parts);
// The following routes need a plane. Without one they are only described; their handlers are never called.
void add_cluster_routes(Router& router, const ApiParts& parts);
void add_host_routes(Router& router, const ApiParts& parts);
void add_switch_routes(Router& router, const ApiParts& parts);
void add_vm_routes(Router& router, const ApiParts& parts);
void add_batch_route(Router& router, const ApiParts& parts);
void add_motion_routes(Router& router, const ApiParts& parts);

// The abilities that only some daemons have, by name.
std::vector<std::string> features_of(const ApiParts& parts);

// Makes a router with all routes, and with /openapi.json, which describes them.
Router make_router(const ApiParts& parts);

// Resolves the host name in a path or body: "self" means this daemon's host, whose name is `own`.
std::string host_name(const std::string& own, const std::string& name);

// Runs `edit`, then replies with the result of `show` for the new inventory.
Reply edit_and_show(const Configuration& configuration, const control::Plane::Edit& edit,
                    const std::function<Reply(const control::Inventory&)>& show);
// Like edit_and_show(); the reply is an empty object.
Reply edit_only(const Configuration& configuration, const control::Plane::Edit& edit);

}  // namespace pvrdma::api
