// Motions: VMs that move from this host to another one.
#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

using motion::MotionService;
using motion::MotionState;

Reply one_motion(MotionService& motions, const std::string& vm) {
  const std::vector<MotionState> all = motions.list();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.vm == vm; });
  if (found != all.end()) return ok(text_of(*found));
  return refuse(ErrorKind::kNotFound, fmt::format("no motion of VM {} began on this host", vm));
}

Reply start_motion(MotionService& motions, const Call& call) {
  auto wish = body_of<motion::MotionWish>(call);
  if (!wish) return refuse(wish.error());
  wish->vm = call.names[0];
  const std::string check = call.parameter("check");
  if (check == "true") {
    const auto checked = motions.check(*wish);
    return checked ? ok(text_of(Nothing{})) : refuse(checked.error());
  }
  if (!check.empty() && check != "false")
    return refuse(ErrorKind::kInvalid, fmt::format("check must be true or false, not {}", check));
  const auto started = motions.start(*wish);
  return started ? ok(text_of(*started)) : refuse(started.error());
}

Reply cancel_motion(MotionService& motions, const Call& call) {
  const auto cancelled = motions.cancel(call.names[0]);
  return cancelled ? one_motion(motions, call.names[0]) : refuse(cancelled.error());
}

}  // namespace

void add_motion_routes(Router& router, const ApiParts& parts) {
  const auto add = [&](std::string_view method, std::string_view path, std::string_view summary,
                       SchemaOf body, SchemaOf answer, auto handler,
                       std::vector<std::string_view> query = {}) {
    router.add({method, path, summary, body, answer,
                [motions = parts.motions, handler](const Call& call) { return handler(*motions, call); },
                std::move(query), false, /*of_cluster=*/true});
  };
  add("GET", "/v1/motions", "The newest motion of each VM that began on this host", nullptr,
      schema_for<std::vector<MotionState>>,
      [](MotionService& motions, const Call&) { return ok(text_of(motions.list())); });
  add("GET", "/v1/vms/{vm}/motion", "The newest motion of the VM that began on this host", nullptr,
      schema_for<MotionState>,
      [](MotionService& motions, const Call& call) { return one_motion(motions, call.names[0]); });
  add("POST", "/v1/vms/{vm}/motion",
      "Moves a running VM of this host to another host, and answers at once; with check=true it is only "
      "checked whether it may move",
      schema_for<motion::MotionWish>, schema_for<MotionState>, start_motion, {"check"});
  add("DELETE", "/v1/vms/{vm}/motion", "Cancels the VM's motion, unless it is too late", nullptr,
      schema_for<MotionState>, cancel_motion);
}

}  // namespace pvrdma::api
