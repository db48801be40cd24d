// "/v1/budgets": what this host's adapters use of their budgets, each and together.

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

BudgetsAnswer budgets_of(const snapshots::Snapshot& snapshot) {
  BudgetsAnswer answer{.adapters = {}, .totals = snapshot.totals};
  for (const snapshots::AdapterSnapshot& each : snapshot.adapters)
    answer.adapters.push_back({each.name, each.budgets});
  return answer;
}

}  // namespace

void add_budget_route(Router& router, const ApiParts& parts) {
  router.add({"GET", "/v1/budgets", "Use and limit of each budget, by adapter and of the host", nullptr,
              schema_for<BudgetsAnswer>, [&source = parts.source](const Call&) {
                const auto snapshot = source.take_snapshot(snapshots::SnapshotDetail::kAdapters);
                return snapshot ? ok(text_of(budgets_of(*snapshot))) : refuse(snapshot.error());
              }});
}

}  // namespace pvrdma::api
