#include "control/model/records.h"

#include <algorithm>
#include <fmt/core.h>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "control/model/objects.h"
#include "control/model/values.h"
#include "vocabulary/ethernet.h"
#include "vocabulary/name.h"

namespace pvrdma::control {
namespace {

constexpr std::string_view kHostPrefix = "config/host/";
constexpr std::string_view kDvsPrefix = "config/dvs/";
constexpr std::string_view kVmPrefix = "config/vm/";
constexpr std::string_view kLiveHostPrefix = "live/host/";
constexpr std::string_view kPowerPrefix = "live/power/";
constexpr std::string_view kGidPrefix = "live/gid/";
constexpr std::size_t kGidChars = 32;
constexpr std::size_t kKeyShownMax = 120;
constexpr std::size_t kValueBytesMax = 2u << 20;  // below etcd's own limit
constexpr int kDepthMax = 64;

std::string key_of(std::string_view prefix, const std::string& name) {
  return std::string(prefix) + name;
}

Failure not_understood(std::string_view key, std::string_view why) {
  return fail(
      fmt::format("the record {} of the store is not understood: {}; another version or another "
                  "program wrote it: upgrade pvrdmad or correct the record",
                  key.substr(0, kKeyShownMax), why));
}

// `object` has the values from its key, and gets those from the record. The error is a clause.
template <schema::Described T>
Result<T> object_from(std::string_view value, T object = {}) {
  if (value.size() > kValueBytesMax) {
    return fail(fmt::format("it has {} bytes, and the limit is {}", value.size(), kValueBytesMax));
  }
  const auto json = schema::parse_object(value, kDepthMax);
  if (!json) return Failure(json.error());
  schema::Reader reader;
  read(reader, *json, object);
  if (reader.failed()) return fail(sentence(*reader.mistake(), "the record"));
  return object;
}

// Applies `change` to `objects`, whose keys begin with `prefix`. `read` makes the object.
template <typename T, typename Read>
Result<void> apply_to(std::map<std::string, T>& objects, std::string_view prefix, const Change& change,
                      Read read) {
  const std::string name = change.key.substr(prefix.size());
  if (!is_name(name)) return not_understood(change.key, "its key does not end with a name");
  if (!change.value) {
    objects.erase(name);
    return {};
  }
  Result<T> object = read(name, *change.value);
  if (!object) return not_understood(change.key, object.error().message);
  objects.insert_or_assign(name, *std::move(object));
  return {};
}

template <schema::Described T>
Result<void> apply_named(std::map<std::string, T>& objects, std::string_view prefix, const Change& change) {
  return apply_to(objects, prefix, change, [](const std::string& name, std::string_view value) {
    T object;
    object.name = name;
    return object_from(value, std::move(object));
  });
}

Result<void> apply_guard(Inventory& inventory, const Change& change) {
  const auto guard = change.value ? object_from<Guard>(*change.value) : Guard{};
  if (!guard) return not_understood(change.key, guard.error().message);
  inventory.revision = guard->revision;
  inventory.next_dvs_id = guard->next_dvs_id;
  inventory.cluster_id = guard->cluster_id;
  return {};
}

Result<std::string> power_from(const std::string&, std::string_view value) {
  if (is_name(value)) return std::string(value);
  return fail("its value is not a host's name");
}

// "DVS.VLAN/GID".
std::optional<GidKey> gid_key_from(std::string_view text) {
  const std::size_t dot = text.find('.');
  const std::size_t slash = text.find('/');
  if (dot == std::string_view::npos || slash == std::string_view::npos || slash < dot) return std::nullopt;
  const auto dvs = parse_decimal(text.substr(0, dot), std::numeric_limits<std::uint32_t>::max());
  const auto vlan = parse_decimal(text.substr(dot + 1, slash - dot - 1), kVlanMax);
  const std::string_view gid = text.substr(slash + 1);
  const bool hex = gid.size() == kGidChars && std::all_of(gid.begin(), gid.end(), [](char c) {
                     return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                   });
  if (!dvs || *dvs == 0 || !vlan || !hex) return std::nullopt;
  return GidKey{{*dvs, static_cast<std::uint16_t>(*vlan)}, std::string(gid)};
}

Result<void> apply_gid(Inventory& inventory, const Change& change) {
  auto key = gid_key_from(std::string_view(change.key).substr(kGidPrefix.size()));
  if (!key) return not_understood(change.key, "its key does not end with DVS.VLAN/GID");
  if (!change.value) {
    inventory.gids.erase(*key);
    return {};
  }
  auto holder = object_from<GidHolder>(*change.value);
  if (!holder) return not_understood(change.key, holder.error().message);
  inventory.gids.insert_or_assign(*std::move(key), *std::move(holder));
  return {};
}

template <typename T>
void add_deleted(std::vector<Change>& changes, std::string_view prefix,
                 const std::map<std::string, T>& before, const std::map<std::string, T>& after) {
  for (const auto& [name, object] : before) {
    if (!after.contains(name)) changes.push_back({key_of(prefix, name), std::nullopt});
  }
}

template <typename T>
void add_written(std::vector<Change>& changes, std::string_view prefix,
                 const std::map<std::string, T>& before, const std::map<std::string, T>& after) {
  for (const auto& [name, object] : after) {
    const auto it = before.find(name);
    if (it == before.end() || it->second != object)
      changes.push_back({key_of(prefix, name), schema::text_of(object)});
  }
}

}  // namespace

Result<void> apply(Inventory& inventory, const Change& change) {
  const std::string& key = change.key;
  if (key == kGuardKey) return apply_guard(inventory, change);
  if (key.starts_with(kHostPrefix)) return apply_named(inventory.hosts, kHostPrefix, change);
  if (key.starts_with(kDvsPrefix)) return apply_named(inventory.switches, kDvsPrefix, change);
  if (key.starts_with(kVmPrefix)) return apply_named(inventory.vms, kVmPrefix, change);
  if (key.starts_with(kLiveHostPrefix)) return apply_named(inventory.live_hosts, kLiveHostPrefix, change);
  if (key.starts_with(kPowerPrefix)) return apply_to(inventory.powered_on, kPowerPrefix, change, power_from);
  if (key.starts_with(kGidPrefix)) return apply_gid(inventory, change);
  return not_understood(key, "the kind of its key is unknown");
}

std::vector<Change> difference(const Inventory& before, const Inventory& after) {
  std::vector<Change> changes;
  add_deleted(changes, kDvsPrefix, before.switches, after.switches);
  add_deleted(changes, kHostPrefix, before.hosts, after.hosts);
  add_deleted(changes, kVmPrefix, before.vms, after.vms);
  const Guard guard{after.revision, after.next_dvs_id, after.cluster_id};
  if (guard != Guard{before.revision, before.next_dvs_id, before.cluster_id})
    changes.push_back({std::string(kGuardKey), schema::text_of(guard)});
  add_written(changes, kDvsPrefix, before.switches, after.switches);
  add_written(changes, kHostPrefix, before.hosts, after.hosts);
  add_written(changes, kVmPrefix, before.vms, after.vms);
  return changes;
}

std::string live_host_key(const std::string& host) {
  return key_of(kLiveHostPrefix, host);
}

std::string live_host_value(const LiveHost& host) {
  schema::Json json = schema::to_json(host);
  if (!host.shards) json.erase("shards");
  if (!host.hca_shards) json.erase("hca_shards");
  return schema::text_of(json);
}

std::string power_key(const std::string& vm) {
  return key_of(kPowerPrefix, vm);
}

std::string gid_key(const GidKey& key) {
  return fmt::format("{}{}.{}/{}", kGidPrefix, key.segment.dvs_id, key.segment.vlan, key.gid);
}

std::string gid_value(const GidHolder& holder) {
  schema::Json json = schema::to_json(holder);
  if (!holder.shard) json.erase("shard");
  return schema::text_of(json);
}

}  // namespace pvrdma::control
