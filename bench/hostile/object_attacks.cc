// Attacks with many verbs objects at once.
#include <fmt/core.h>

#include "attack.h"
#include "guest.h"
#include "support/rc_endpoint.h"

namespace pvrdma::bench {
namespace {

constexpr std::uint32_t kCrowd = 32'000;
constexpr std::uint32_t kTornDown = 30'000;

std::string count_of(const Crowd& crowd) {
  return crowd.refusal().empty() ? fmt::format("{} QPs", crowd.size())
                                 : fmt::format("{} QPs, then: {}", crowd.size(), crowd.refusal());
}

// All QPs' work requests are flushed into one CQ, which has room for one completion.
std::string overflowed_cq(Field& field) {
  Guest guest(field.sockets[0]);
  must(guest.device().bind_gid(0, test::gid_of(0)));
  Crowd crowd(guest, guest.device().kernel(), kCrowd);
  crowd.start(test::gid_of(0));
  field.begin();
  // The first few failures overflow the CQ. The attack measures what the device does with the other QPs then.
  std::size_t failed = 0;
  while (!field.over() && failed < crowd.size()) crowd.fail(failed++);
  return count_of(crowd) + fmt::format(" on one CQ, {} of them failed by hand", failed);
}

// The daemon finds one doorbell after the other, and each makes it look at the rings of all QPs of the
// context.
std::string mapped_crowd(Field& field) {
  Guest guest(field.sockets[0]);
  must(guest.device().bind_gid(0, test::gid_of(0)));
  const auto context = must(driver::Context::create_user(guest.device()));
  Crowd crowd(guest, *context, kCrowd);
  crowd.start(test::gid_of(0));
  field.begin();
  while (!field.over()) must(context->ring(abi::UarWord::kQp, crowd.handle(0) | abi::kQpDoorbellSend));
  return count_of(crowd) + " in one context";
}

// QPs are made one after the other, and all are destroyed together when the connection ends.
std::string qps_torn_down(Field& field) {
  Guest guest(field.sockets[0]);
  const Crowd crowd(guest, guest.device().kernel(), kTornDown);
  field.begin();
  static_cast<driver::VfioUserBus&>(guest.device().bus()).disconnect();
  return count_of(crowd);
}

std::string gids_in_a_loop(Field& field) {
  field.begin();
  Guest guest(field.sockets[0]);
  std::uint64_t bound = 0;
  std::string refusal;
  while (!field.over()) {
    auto done = guest.device().bind_gid(0, test::gid_of(static_cast<std::uint32_t>(bound % 100)));
    if (done) {
      must(guest.device().unbind_gid(0, test::gid_of(static_cast<std::uint32_t>(bound % 100))));
      ++bound;
    } else if (refusal.empty()) {
      refusal = done.error().message;
    }
  }
  return fmt::format("{} GIDs bound and unbound{}{}", bound,
                     refusal.empty() ? "" : "; first refusal: ", refusal);
}

constexpr Attack kAttacks[] = {
    {"overflowed-cq", "32,000 QPs on one overflowed CQ", &overflowed_cq},
    {"mapped-crowd", "mapped doorbells without end in a context of 32,000 QPs", &mapped_crowd},
    {"qps-torn-down", "30,000 QPs go with their VMM", &qps_torn_down},
    {"gids-in-a-loop", "CREATE_BIND and DESTROY_BIND in a loop, in a cluster", &gids_in_a_loop, 1, true},
};

}  // namespace

std::span<const Attack> object_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
