// "/v1/faults": faults that are injected into the messages of this host's adapters.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"
#include "base/no_such.h"
#include "base/whole_number.h"

namespace pvrdma::api {
namespace {

Reply add(adapters::Faults& faults, const Call& call) {
  const auto body = body_of<adapters::FaultWish>(call);
  if (!body) return refuse(body.error());
  if (body->drop_ppm + body->duplicate_ppm + body->delay_ppm + body->reorder_ppm + body->corrupt_ppm == 0) {
    return refuse(
        ErrorKind::kInvalid,
        "this fault does nothing: give a probability of drop, duplicate, delay, reorder or corrupt");
  }
  const auto added = faults.add(*body);
  if (!added) return refuse(added.error());
  return ok(text_of(*added));
}

// Lists the faults of the adapter that the query names, or of all adapters.
Reply list(adapters::Faults& faults, const Call& call) {
  auto all = faults.list();
  if (!all) return refuse(all.error());
  const std::string adapter = call.parameter("adapter");
  if (!adapter.empty()) std::erase_if(*all, [&](const auto& each) { return each.adapter != adapter; });
  return ok(text_of(*all));
}

Reply remove(adapters::Faults& faults, const std::string& name) {
  std::optional<std::uint64_t> id;
  if (name != "all") {
    id = whole_number<std::uint64_t>(name);
    if (!id) return refuse(no_such("fault", name, "fault"));
  }
  const auto removed = faults.remove(id);
  return removed ? ok("{}") : refuse(removed.error());
}

}  // namespace

void add_fault_routes(Router& router, const ApiParts& parts) {
  router.add({"GET",
              "/v1/faults",
              "Faults injected into what adapters send, and what they did",
              nullptr,
              schema_for<std::vector<adapters::FaultState>>,
              [&faults = parts.faults](const Call& call) { return list(faults, call); },
              {"adapter"}});
  router.add({"POST", "/v1/faults", "Injects faults into what an adapter sends",
              schema_for<adapters::FaultWish>, schema_for<adapters::FaultState>,
              [&faults = parts.faults](const Call& call) { return add(faults, call); }});
  router.add({"DELETE", "/v1/faults/{fault}", "Removes a fault, by its id, or all", nullptr,
              schema_for<Nothing>,
              [&faults = parts.faults](const Call& call) { return remove(faults, call.names[0]); }});
}

}  // namespace pvrdma::api
