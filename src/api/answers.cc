#include "api/answers.h"

#include <algorithm>
#include <tuple>

namespace pvrdma::api {
namespace {

template <typename Named>
Json by_name(const std::vector<Named>& list) {
  Json object = Json::object();
  for (const Named& entry : list) object[std::string(entry.name)] = entry.value;
  return object;
}

bool wanted(std::string_view adapter, std::string_view name) {
  return adapter.empty() || adapter == name;
}

// Of a connected QP.
std::string_view path_of(const snapshots::QpSnapshot& qp) {
  return qp.path.empty() ? "none" : qp.path;
}

}  // namespace

Json CountersRule::write(const std::vector<snapshots::Counter>& counters) const {
  return by_name(counters);
}

Json CountersRule::write(const std::vector<snapshots::Gauge>& gauges) const {
  return by_name(gauges);
}

Json CountersRule::schema(Components& components) const {
  return schema::schema_named(components, "Counters",
                              schema::MapRule<schema::NumberRule>{}.schema(components));
}

Json CounterGroupsRule::write(const std::vector<snapshots::CounterGroup>& groups) const {
  Json object = Json::object();
  for (const snapshots::CounterGroup& group : groups)
    object[std::string(group.name)] = by_name(group.counters);
  return object;
}

Json CounterGroupsRule::write(const std::vector<snapshots::PathUse>& paths) const {
  Json object = Json::object();
  for (const snapshots::PathUse& use : paths) {
    object[std::string(use.path)] = {{"messages", use.messages}, {"payload_bytes", use.payload_bytes}};
  }
  return object;
}

Json CounterGroupsRule::schema(Components& components) const {
  return schema::schema_named(
      components, "CounterGroups",
      {{"type", "object"}, {"additionalProperties", CountersRule{}.schema(components)}});
}

Json BudgetsRule::write(const std::vector<BudgetUse>& budgets) const {
  Json object = Json::object();
  for (const BudgetUse& each : budgets) object[std::string(to_text(each.budget))] = schema::to_json(each);
  return object;
}

Json BudgetsRule::schema(Components& components) const {
  return schema::schema_named(
      components, "Budgets",
      {{"type", "object"}, {"additionalProperties", schema::schema_of<BudgetUse>(components)}});
}

std::vector<snapshots::QpSnapshot> qps_of(const snapshots::Snapshot& snapshot, const QpWish& wish) {
  std::vector<snapshots::QpSnapshot> qps;
  for (const snapshots::QpSnapshot& qp : snapshot.qps) {
    if (!wanted(wish.adapter, qp.adapter)) continue;
    if (!wish.path.empty() && (qp.remote_gid.empty() || path_of(qp) != wish.path)) continue;
    if (!wish.limit || qp.qpn > wish.after) qps.push_back(qp);
  }
  if (!wish.limit) return qps;
  const auto end = qps.begin() + static_cast<std::ptrdiff_t>(std::min(*wish.limit, qps.size()));
  std::ranges::partial_sort(qps, end, {}, &snapshots::QpSnapshot::qpn);
  qps.erase(end, qps.end());
  return qps;
}

std::vector<PathView> paths_of(const snapshots::Snapshot& snapshot, const std::string& host) {
  std::vector<PathView> paths;
  for (const snapshots::QpSnapshot& qp : snapshot.qps) {
    if (qp.remote_gid.empty()) continue;
    PathView& path = paths.emplace_back(PathView{qp});
    if (path.path == "local" && path.peer_host.empty()) path.peer_host = host;
    path.path = path_of(qp);
  }
  return paths;
}

std::vector<PathCount> path_counts_of(const snapshots::Snapshot& snapshot, const std::string& host) {
  std::map<std::tuple<std::string, std::string_view, std::string, std::string>, std::uint64_t> counts;
  for (const PathView& each : paths_of(snapshot, host))
    ++counts[{each.adapter, each.path, each.path_reason, each.peer_host}];
  std::vector<PathCount> out;
  for (const auto& [key, count] : counts) {
    const auto& [adapter, path, reason, peer_host] = key;
    out.push_back({adapter, std::string(path), reason, peer_host, count});
  }
  return out;
}

std::string stats_json(const snapshots::Snapshot& snapshot, std::string_view adapter) {
  Json adapters = Json::array();
  for (const snapshots::AdapterSnapshot& each : snapshot.adapters) {
    if (!wanted(adapter, each.name)) continue;
    Json entry{{"name", each.name}};
    entry.update(CounterGroupsRule{}.write(each.groups));
    adapters.push_back(std::move(entry));
  }
  Json all{{"adapters", std::move(adapters)}};
  if (adapter.empty()) all["host"] = CounterGroupsRule{}.write(snapshot.host);
  return text_of(all);
}

Json stats_schema(Components& components) {
  const Json adapter{{"type", "object"}, {"properties", {{"name", {{"type", "string"}}}}}};
  return schema::schema_named(components, "Stats",
                              {{"type", "object"},
                               {"properties",
                                {{"adapters", {{"type", "array"}, {"items", adapter}}},
                                 {"host", CounterGroupsRule{}.schema(components)}}}});
}

Json capture_schema(Components&) {
  return {{"type", "string"}, {"format", "binary"}};
}

std::string error_text(const ErrorAnswer& answer) {
  Json json = schema::to_json(answer);
  for (const char* name : {"field", "index"}) {
    if (json[name].is_null()) json.erase(name);
  }
  return text_of(json);
}

ErrorAnswer error_from(const std::string& text) {
  ErrorAnswer answer;
  const auto json = schema::parse_object(text, 1);
  schema::Reader reader;
  if (json) read(reader, *json, answer);
  return answer;
}

Json events_schema(Components&) {
  return {{"type", "string"}};
}

Json file_schema(Components& components) {
  return capture_schema(components);
}

Json bytes_schema(Components& components) {
  return capture_schema(components);
}

}  // namespace pvrdma::api
