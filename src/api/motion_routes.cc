// Motions: VMs on their way from this host to another one.
#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <utility>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

Reply one_motion(control::AdapterControl& control, const std::string& vm) {
  const std::vector<control::MotionState> all = control.list_motions();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.vm == vm; });
  if (found != all.end()) return ok(text_of(*found));
  return refuse(404, fmt::format("no motion of VM {} began on this host", vm));
}

Reply start(control::AdapterControl& control, const Call& call) {
  const auto body = body_of<MotionBody>(call);
  if (!body) return refuse(body.error());
  const control::MotionWish wish{.vm = call.names[0],
                                 .to = body->to,
                                 .monitor = body->monitor,
                                 .max_pause_ms = body->max_pause_ms,
                                 .patience_s = body->patience_s,
                                 .leader = body->leader == "libvirt" ? control::MotionLeader::kLibvirt
                                                                     : control::MotionLeader::kDaemons};
  if (!body->leader.empty() && body->leader != "libvirt" && body->leader != "pvrdmad")
    return refuse(400, fmt::format("leader is pvrdmad or libvirt, not {}", body->leader));
  const std::string check = call.parameter("check");
  if (check == "true") {
    const auto checked = control.check_motion(wish);
    return checked ? ok(text_of(Nothing{})) : refuse(checked.error());
  }
  if (!check.empty() && check != "false")
    return refuse(400, fmt::format("check is true or false, not {}", check));
  const auto started = control.start_motion(wish);
  return started ? ok(text_of(*started)) : refuse(started.error());
}

Reply cancel(control::AdapterControl& control, const Call& call) {
  const auto cancelled = control.cancel_motion(call.names[0]);
  return cancelled ? one_motion(control, call.names[0]) : refuse(cancelled.error());
}

}  // namespace

void add_motion_routes(Router& router, const ApiParts& parts) {
  const auto add = [&](std::string_view method, std::string_view path, std::string_view summary,
                       SchemaOf body, SchemaOf answer, auto handler, std::string_view query = {}) {
    router.add({method, path, summary, body, answer,
                [&control = parts.control, handler](const Call& call) { return handler(control, call); },
                query, false, /*of_cluster=*/true});
  };
  add("GET", "/v1/motions", "The newest motion of each VM that began on this host", nullptr,
      schema_for<std::vector<control::MotionState>>,
      [](control::AdapterControl& control, const Call&) { return ok(text_of(control.list_motions())); });
  add("GET", "/v1/vms/{vm}/motion", "The newest motion of the VM that began on this host", nullptr,
      schema_for<control::MotionState>,
      [](control::AdapterControl& control, const Call& call) { return one_motion(control, call.names[0]); });
  add("POST", "/v1/vms/{vm}/motion",
      "Lets a VM of this host that runs go on on another host, and answers at once; with check=true it is "
      "only found out whether it may",
      schema_for<MotionBody>, schema_for<control::MotionState>, start, "check");
  add("DELETE", "/v1/vms/{vm}/motion", "Gives the VM's motion up, unless it is too late", nullptr,
      schema_for<control::MotionState>, cancel);
}

}  // namespace pvrdma::api
