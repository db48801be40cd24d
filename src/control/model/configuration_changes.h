// What distinguishes two configurations, object by object and member by member, for people: the answer of a
// batch of edits shows it. records.h has the difference that a store needs.
//
// Thread: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/words.h"
#include "control/model/inventory.h"
#include "schema/rules.h"

namespace pvrdma {
namespace control {

enum class ChangedKind : std::uint8_t { kDvs, kHost, kVm };
enum class ChangeWord : std::uint8_t { kAdded, kChanged, kRemoved };

}  // namespace control

template <>
inline constexpr std::array kWords<control::ChangedKind>{Word{"dvs", control::ChangedKind::kDvs},
                                                         Word{"host", control::ChangedKind::kHost},
                                                         Word{"vm", control::ChangedKind::kVm}};
template <>
inline constexpr std::array kWords<control::ChangeWord>{Word{"added", control::ChangeWord::kAdded},
                                                        Word{"changed", control::ChangeWord::kChanged},
                                                        Word{"removed", control::ChangeWord::kRemoved}};

namespace control {

struct MemberChange {
  std::string member;   // names separated by slashes: "portgroups/DPortGroup/vlan"
  schema::Json before;  // null: it did not exist
  schema::Json after;   // null: it no longer exists
};

struct ObjectChange {
  ChangedKind kind{};
  std::string name;
  ChangeWord change{};
  std::vector<MemberChange> members;  // of a removed object: empty
};

// Switches, hosts, VMs; each by name. Live records are not looked at.
std::vector<ObjectChange> changes_between(const Inventory& before, const Inventory& after);

}  // namespace control

namespace schema {

// A value of any type.
struct AnyRule {
  Json write(const Json& value) const { return value; }
  Json schema(Components&) const { return {{"nullable", true}, {"description", "A value of any type"}}; }
};

template <>
inline constexpr auto kObject<control::MemberChange> =
    record("MemberChange", field("member", &control::MemberChange::member),
           field("before", &control::MemberChange::before, AnyRule{}),
           field("after", &control::MemberChange::after, AnyRule{}));

template <>
inline constexpr auto kObject<control::ObjectChange> = record(
    "ObjectChange", field("kind", &control::ObjectChange::kind), field("name", &control::ObjectChange::name),
    field("change", &control::ObjectChange::change), field("members", &control::ObjectChange::members));

}  // namespace schema
}  // namespace pvrdma
