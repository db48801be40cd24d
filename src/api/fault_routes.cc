// "/v1/faults": faults injected into what this host's adapters send.
#include <cerrno>
#include <charconv>
#include <fmt/core.h>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

FaultView view_of(control::FaultState state) {
  FaultView view;
  static_cast<control::FaultWish&>(view) = std::move(state.wish);
  view.id = state.id;
  view.counts = state.counts;
  return view;
}

Reply add(control::AdapterControl& control, const Call& call) {
  const auto body = body_of<FaultBody>(call);
  if (!body) return refuse(body.error());
  if (body->drop_ppm + body->duplicate_ppm + body->delay_ppm + body->reorder_ppm + body->corrupt_ppm == 0) {
    return refuse(
        400, "a fault that does nothing: give a probability of drop, duplicate, delay, reorder or corrupt");
  }
  auto added = control.add_fault(*body);
  if (!added) return refuse(added.error());
  return ok(text_of(view_of(*std::move(added))));
}

// Empty `adapter`: of all.
Reply list(control::AdapterControl& control, const Call& call) {
  auto all = control.list_faults();
  if (!all) return refuse(all.error());
  const std::string adapter = call.parameter("adapter");
  std::vector<FaultView> views;
  for (control::FaultState& each : *all) {
    if (adapter.empty() || each.wish.adapter == adapter) views.push_back(view_of(std::move(each)));
  }
  return ok(text_of(views));
}

Reply remove(control::AdapterControl& control, const std::string& name) {
  std::optional<std::uint64_t> id;
  if (name != "all") {
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data(), end, id.emplace());
    if (error != std::errc{} || rest != end) {
      return refuse(404, fmt::format("there is no fault {}: see the list of faults", name));
    }
  }
  const auto removed = control.remove_fault(id);
  return removed ? ok("{}") : refuse(removed.error());
}

}  // namespace

void add_fault_routes(Router& router, const ApiParts& parts) {
  router.add({"GET", "/v1/faults", "Faults injected into what adapters send, and what they did", nullptr,
              schema_for<std::vector<FaultView>>,
              [&control = parts.control](const Call& call) { return list(control, call); }, "adapter"});
  router.add({"POST", "/v1/faults", "Injects faults into what an adapter sends", schema_for<FaultBody>,
              schema_for<FaultView>,
              [&control = parts.control](const Call& call) { return add(control, call); }});
  router.add({"DELETE", "/v1/faults/{fault}", "Removes a fault, by its id, or all", nullptr,
              schema_for<Nothing>,
              [&control = parts.control](const Call& call) { return remove(control, call.names[0]); }});
}

}  // namespace pvrdma::api
