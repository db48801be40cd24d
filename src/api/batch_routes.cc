// POST /v1/batch: several edits of the configuration as one, all or none of them.
//
// The edits change a draft, a copy of the inventory. The plane first rehearses them, outside its turn: what
// may be slow (looking for an owner) is done there, and a dry run ends there. Then it runs them again, as its
// edit, on the newest inventory.
#include <fmt/core.h>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/answers.h"
#include "api/configuration.h"
#include "api/query.h"
#include "api/requests.h"
#include "api/routes.h"
#include "control/model/configuration_changes.h"

namespace pvrdma::api {
namespace {

constexpr std::size_t kShownPathBytes = 128;

std::string shown(const BatchEdit& edit) {
  return fmt::format("{} {}", to_text(edit.method), edit.path.substr(0, kShownPathBytes));
}

// Runs one edit on the draft.
Reply run(const Router& router, const BatchEdit& edit, const Draft& draft) {
  if (edit.path.size() > kPathBytesMax) return refuse(414, "the path is too long");
  Call call{.method = std::string(to_text(edit.method)), .body = edit.body, .draft = &draft};
  split_query(edit.path, call.path, call.query);
  if (!router.has(call.method, call.path)) {
    return refuse(ErrorKind::kInvalid,
                  "this is no edit of hosts, switches or VMs: send it as a request of its own");
  }
  return router.answer(std::move(call));
}

// Runs the edits in turn. Returns the refusal of the first that is refused, and adds the others' answers to
// `answers`; null for those that are too long together, because an edit of a large switch is answered with
// all of it.
std::optional<Reply> run_all(const Router& router, const std::vector<BatchEdit>& edits, const Draft& draft,
                             std::vector<Json>& answers) {
  std::size_t left = kBatchAnswersBytesMax;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const Reply reply = run(router, edits[i], draft);
    if (reply.status != 200) return refuse_edit(reply, i, shown(edits[i]));
    const bool fits = reply.text.size() <= left;
    answers.push_back(fits ? Json::parse(reply.text) : Json());
    left = fits ? left - reply.text.size() : 0;
  }
  return std::nullopt;
}

Reply batch(control::Plane& plane, const Router& router, const Call& call) {
  const auto body = body_of<BatchBody>(call, kBatchDepthMax);
  if (!body) return refuse(body.error());
  BatchAnswer answer;
  std::optional<Reply> refusal;
  Draft::Owners owners;
  const auto run_it = [&](bool rehearsed) {
    return [&, rehearsed](control::Inventory& inventory) -> Result<void> {
      if (body->revision && *body->revision != inventory.revision) {
        return fail(ErrorKind::kConflict,
                    fmt::format("the configuration has changed since revision {}: it is at {} now: look what "
                                "the edits change now, and try again",
                                *body->revision, inventory.revision));
      }
      std::optional<control::Inventory> before;
      if (body->dry_run) before = inventory;
      answer = {.dry_run = body->dry_run, .revision = inventory.revision};
      refusal = run_all(router, body->edits,
                        {.inventory = inventory, .owners = owners, .rehearsed = rehearsed}, answer.answers);
      if (refusal) return fail(ErrorKind::kConflict, "an edit of the batch is refused");
      if (before) answer.changes = control::changes_between(*before, inventory);
      return {};
    };
  };
  auto done = plane.rehearse(run_it(/*rehearsed=*/false));
  if (done && !body->dry_run) {
    done = plane.edit(run_it(/*rehearsed=*/true),
                      [&](const control::Inventory& before, const control::Inventory& after) {
                        answer.changes = control::changes_between(before, after);
                        tell_edits(answer.changes, call.client);
                      });
  }
  if (refusal) return *std::move(refusal);
  if (!done) return refuse(done.error());
  if (!body->dry_run) answer.revision = plane.inventory()->revision;
  return ok(text_of(answer));
}

}  // namespace

void add_batch_route(Router& router, const ApiParts& parts) {
  auto edits = std::make_shared<Router>(Router::Membership::kCluster);
  add_host_routes(*edits, parts);
  add_switch_routes(*edits, parts);
  add_vm_routes(*edits, parts);
  router.add({.method = "POST",
              .path = "/v1/batch",
              .summary = "Makes up to 64 edits of hosts, switches and VMs, all or none of them; with dry_run "
                         "it only tells what they would change",
              .body = schema_for<BatchBody>,
              .answer = schema_for<BatchAnswer>,
              .handler = [plane = parts.plane,
                          edits = std::move(edits)](const Call& call) { return batch(*plane, *edits, call); },
              .of_cluster = true});
}

}  // namespace pvrdma::api
