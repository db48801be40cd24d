#include "api/edit_report.h"

#include <algorithm>
#include <fmt/core.h>

#include "base/events.h"

namespace pvrdma::api {
namespace {

constexpr std::size_t kMembersShown = 6;

events::Kind kind_of(control::ChangedKind kind) {
  switch (kind) {
    case control::ChangedKind::kDvs:
      return events::Kind::kDvs;
    case control::ChangedKind::kHost:
      return events::Kind::kHost;
    case control::ChangedKind::kVm:
      break;
  }
  return events::Kind::kVm;
}

// ": memory_mib, reserved_mib and 3 more". Empty unless an existing object has changed.
std::string members_of(const control::ObjectChange& change) {
  if (change.change != control::ChangeWord::kChanged) return {};
  std::string text;
  const std::size_t shown = std::min(change.members.size(), kMembersShown);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? ": " : ", ") + change.members[i].member;
  if (shown < change.members.size()) text += fmt::format(" and {} more", change.members.size() - shown);
  return text;
}

}  // namespace

void tell_edits(const std::vector<control::ObjectChange>& changes, const std::string& initiator) {
  for (const control::ObjectChange& change : changes) {
    events::tell(log::Level::kInfo, {events::Type::kEdit, kind_of(change.kind), change.name, initiator},
                 "{} {}: {} by {}{}", to_text(change.kind), change.name, to_text(change.change), initiator,
                 members_of(change));
  }
}

Result<void> edit_and_tell(control::Plane& plane, const std::string& initiator,
                           const control::Plane::Edit& edit) {
  return plane.edit(edit, [&](const control::Inventory& before, const control::Inventory& after) {
    tell_edits(control::changes_between(before, after), initiator);
  });
}

}  // namespace pvrdma::api
