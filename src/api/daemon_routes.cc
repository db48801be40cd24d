// Routes that every daemon has, member of a cluster or not: its version, adapters, QPs, counters and paths.
#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <functional>
#include <optional>
#include <utility>

#include "api/answers.h"
#include "api/host_reads.h"
#include "api/metrics.h"
#include "api/requests.h"
#include "api/routes.h"
#include "base/no_such.h"

namespace pvrdma::api {
namespace {

const snapshots::AdapterSnapshot* find(const snapshots::Snapshot& snapshot, std::string_view name) {
  const auto it =
      std::find_if(snapshot.adapters.begin(), snapshot.adapters.end(),
                   [name](const snapshots::AdapterSnapshot& adapter) { return adapter.name == name; });
  return it == snapshot.adapters.end() ? nullptr : &*it;
}

Reply refuse_adapter(std::string_view name) {
  return refuse(no_such("adapter", name, "adapter"));
}

using Answer = std::function<Reply(const snapshots::Snapshot&, const Call&)>;

// A handler that takes a new snapshot and passes it to `answer`.
std::function<Reply(const Call&)> with_snapshot(
    snapshots::SnapshotSource& source, Answer answer,
    snapshots::SnapshotDetail detail = snapshots::SnapshotDetail::kAdapters) {
  return [&source, answer = std::move(answer), detail](const Call& call) {
    const auto snapshot = source.take_snapshot(detail);
    if (!snapshot) return refuse(snapshot.error());
    return answer(*snapshot, call);
  };
}

// An answer with `render` for the adapter that the query names, or for all adapters.
Answer filtered(std::string (*render)(const snapshots::Snapshot&, std::string_view)) {
  return [render](const snapshots::Snapshot& snapshot, const Call& call) {
    const std::string adapter = call.parameter("adapter");
    if (!adapter.empty() && find(snapshot, adapter) == nullptr) return refuse_adapter(adapter);
    return ok(render(snapshot, adapter));
  };
}

constexpr std::size_t kQpsOfPageMax = 10'000;
constexpr std::array<std::string_view, 5> kPaths{"local", "tcp", "hca", "roce", "none"};

Result<QpWish> qp_wish_of(const Call& call) {
  const auto after = number_of(call, "after");
  if (!after) return Failure(after.error());
  const auto limit = number_of(call, "limit");
  if (!limit) return Failure(limit.error());
  QpWish wish{.adapter = call.parameter("adapter"), .path = call.parameter("path"), .limit = *limit};
  if (!wish.path.empty() && std::ranges::find(kPaths, wish.path) == kPaths.end()) {
    return fail(ErrorKind::kInvalid, fmt::format("path must be local, tcp, hca, roce or none, not \"{}\"",
                                                 wish.path.substr(0, 64)));
  }
  if (wish.limit && (*wish.limit == 0 || *wish.limit > kQpsOfPageMax))
    return fail(ErrorKind::kInvalid, fmt::format("limit is {}: give 1 to {}", *wish.limit, kQpsOfPageMax));
  if (*after && !wish.limit) return fail(ErrorKind::kInvalid, "after needs a limit: give both for a page");
  if (wish.limit && wish.adapter.empty())
    return fail(ErrorKind::kInvalid, "limit needs an adapter, because pages are in the order of its QPNs");
  wish.after = static_cast<std::uint32_t>(std::min<std::uint64_t>(after->value_or(0), UINT32_MAX));
  return wish;
}

Reply list_qps(const snapshots::Snapshot& snapshot, const Call& call) {
  const auto wish = qp_wish_of(call);
  if (!wish) return refuse(wish.error());
  if (!wish->adapter.empty() && find(snapshot, wish->adapter) == nullptr)
    return refuse_adapter(wish->adapter);
  return ok(text_of(qps_of(snapshot, *wish)));
}

Reply one_adapter(snapshots::SnapshotSource& source, const std::string& name) {
  const auto snapshot = source.take_snapshot(snapshots::SnapshotDetail::kAdapters);
  if (!snapshot) return refuse(snapshot.error());
  const snapshots::AdapterSnapshot* adapter = find(*snapshot, name);
  return adapter == nullptr ? refuse_adapter(name) : ok(text_of(*adapter));
}

Reply set_link(const ApiParts& parts, const Call& call) {
  const auto body = body_of<LinkBody>(call);
  if (!body) return refuse(ErrorKind::kInvalid, R"(the body must be {"up": true} or {"up": false})");
  const auto done = parts.links.set(call.names[0], body->up ? adapters::Link::kUp : adapters::Link::kDown);
  if (!done) return refuse(done.error());
  return one_adapter(parts.source, call.names[0]);
}

Reply upgrade_vmm(motion::UpgradeService& upgrades, const Call& call) {
  auto wish = body_of<motion::UpgradeWish>(call);
  if (!wish) return refuse(wish.error());
  wish->adapter = call.names[0];
  const auto upgraded = upgrades.upgrade(*wish);
  return upgraded ? ok(text_of(*upgraded)) : refuse(upgraded.error());
}

Version version_for(Role role, const ApiParts& parts) {
  Version answer{.version = parts.version, .role = to_text(role), .features = features_of(parts)};
  if (parts.plane != nullptr) answer.host = parts.plane->host();
  return answer;
}

Reply metrics(const ApiParts& parts, const snapshots::Snapshot& snapshot) {
  std::optional<MemberMetrics> member;
  if (parts.plane != nullptr)
    member = {parts.plane->store_state(), parts.motions->counters(), parts.reads->counters()};
  return {200, metrics_text({snapshot, parts.version, parts.certificates(), std::move(member)}),
          "text/plain; version=0.0.4"};
}

}  // namespace

void add_daemon_routes(Router& router, const ApiParts& parts) {
  router.add({"GET", "/v1/version", "Version of the daemon and of this API", nullptr, schema_for<Version>,
              [parts](const Call& call) { return ok(text_of(version_for(call.role, parts))); }});
  router.add({"GET", "/v1/adapters", "Adapters that run on this host", nullptr,
              schema_for<std::vector<snapshots::AdapterSnapshot>>,
              with_snapshot(parts.source, [](const snapshots::Snapshot& snapshot, const Call&) {
                return ok(text_of(snapshot.adapters));
              })});
  router.add({"GET", "/v1/adapters/{adapter}", "One adapter", nullptr, schema_for<snapshots::AdapterSnapshot>,
              [&source = parts.source](const Call& call) { return one_adapter(source, call.names[0]); }});
  router.add({"PUT", "/v1/adapters/{adapter}/link", "Takes an adapter's link down or up",
              schema_for<LinkBody>, schema_for<snapshots::AdapterSnapshot>,
              [parts](const Call& call) { return set_link(parts, call); }});
  router.add({"POST", "/v1/adapters/{adapter}/upgrade-vmm",
              "Moves the adapter's VM to another QEMU of this host; answers when the VM goes on there",
              schema_for<motion::UpgradeWish>, schema_for<motion::UpgradeReport>,
              [&upgrades = parts.upgrades](const Call& call) { return upgrade_vmm(upgrades, call); }});
  router.add({"GET",
              "/v1/qps",
              "QPs of this host's adapters: all, those with one path, or a page after a QPN",
              nullptr,
              schema_for<std::vector<snapshots::QpSnapshot>>,
              with_snapshot(parts.source, list_qps, snapshots::SnapshotDetail::kAdaptersAndQps),
              {"adapter", "path", "after", "limit"}});
  router.add({"GET",
              "/v1/stats",
              "Counters by adapter and of the host",
              nullptr,
              stats_schema,
              with_snapshot(parts.source, filtered(stats_json)),
              {"adapter"}});
  const std::string host = parts.plane == nullptr ? "" : parts.plane->host();
  router.add({"GET", "/v1/paths", "The path of each connected QP, and why", nullptr,
              schema_for<std::vector<PathView>>,
              with_snapshot(
                  parts.source,
                  [host](const snapshots::Snapshot& snapshot, const Call&) {
                    return ok(text_of(paths_of(snapshot, host)));
                  },
                  snapshots::SnapshotDetail::kAdaptersAndQps)});
  router.add({"GET", "/v1/paths/summary",
              "How many connections of each adapter take which path, why, and to which host", nullptr,
              schema_for<std::vector<PathCount>>,
              with_snapshot(
                  parts.source,
                  [host](const snapshots::Snapshot& snapshot, const Call&) {
                    return ok(text_of(path_counts_of(snapshot, host)));
                  },
                  snapshots::SnapshotDetail::kAdaptersAndQps)});
  router.add({"GET", "/metrics", "Counters and gauges in Prometheus' text format", nullptr, nullptr,
              with_snapshot(parts.source, [parts](const snapshots::Snapshot& snapshot, const Call&) {
                return metrics(parts, snapshot);
              })});
}

}  // namespace pvrdma::api
