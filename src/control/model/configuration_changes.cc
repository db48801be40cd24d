#include "control/model/configuration_changes.h"

#include <map>
#include <utility>

#include "control/model/objects.h"

namespace pvrdma::control {
namespace {

using schema::Json;
using Members = std::map<std::string, Json>;

// The members of `json` and of the objects in it, by their paths. An object is there as an empty one, so that
// its end differs from that of its members.
void flatten(const std::string& path, const Json& json, Members& members) {
  if (json.is_null()) return;
  if (!json.is_object()) {
    members.emplace(path, json);
    return;
  }
  if (!path.empty()) members.emplace(path, Json::object());
  for (const auto& [name, value] : json.items()) {
    flatten(path.empty() ? name : path + "/" + name, value, members);
  }
}

template <typename T>
Members members_of(const T& object) {
  Members members;
  flatten("", schema::to_json(object), members);
  return members;
}

std::vector<MemberChange> changed_members(const Members& before, const Members& after) {
  std::map<std::string, MemberChange> changes;
  for (const auto& [path, value] : before) {
    const auto it = after.find(path);
    if (it != after.end() && it->second == value) continue;
    changes[path] = {path, value, it == after.end() ? Json(nullptr) : it->second};
  }
  for (const auto& [path, value] : after) {
    if (!before.contains(path)) changes[path] = {path, nullptr, value};
  }
  std::vector<MemberChange> list;
  for (auto& [path, change] : changes) list.push_back(std::move(change));
  return list;
}

template <typename T>
void add_changes(std::vector<ObjectChange>& changes, ChangedKind kind, const std::map<std::string, T>& before,
                 const std::map<std::string, T>& after) {
  for (const auto& [name, object] : before) {
    if (!after.contains(name)) changes.push_back({kind, name, ChangeWord::kRemoved, {}});
  }
  for (const auto& [name, object] : after) {
    const auto it = before.find(name);
    if (it == before.end()) {
      changes.push_back({kind, name, ChangeWord::kAdded, changed_members({}, members_of(object))});
    } else if (it->second != object) {
      changes.push_back(
          {kind, name, ChangeWord::kChanged, changed_members(members_of(it->second), members_of(object))});
    }
  }
}

}  // namespace

std::vector<ObjectChange> changes_between(const Inventory& before, const Inventory& after) {
  std::vector<ObjectChange> changes;
  add_changes(changes, ChangedKind::kDvs, before.switches, after.switches);
  add_changes(changes, ChangedKind::kHost, before.hosts, after.hosts);
  add_changes(changes, ChangedKind::kVm, before.vms, after.vms);
  return changes;
}

}  // namespace pvrdma::control
