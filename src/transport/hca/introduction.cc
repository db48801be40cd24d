#include "transport/hca/introduction.h"

#include <algorithm>
#include <bit>

#include "base/mapped_address.h"
#include "transport/hca/pipe_end.h"

namespace pvrdma::transport::hca {
namespace {

enum class Family : std::uint8_t { kIpv4, kIpv6, kLinkLocal };
Family family_of(const verbs::Gid& gid) {
  if (is_link_local(gid.bytes)) return Family::kLinkLocal;
  return gid.is_ipv4_mapped() ? Family::kIpv4 : Family::kIpv6;
}

bool contains(const std::vector<verbs::Gid>& gids, const verbs::Gid& gid) {
  return std::find(gids.begin(), gids.end(), gid) != gids.end();
}

}  // namespace

std::string_view defect_of(const PipeEndpoint& end) {
  if (end.qpn < 2 || end.qpn > kMask24) return "its QP number is invalid";
  if (end.psn > kMask24) return "its PSN has more than 24 bits";
  if (!std::has_single_bit(end.mtu) || end.mtu < 256 || end.mtu > 4096) return "its MTU is invalid";
  if (end.slots < kSlotsMin || end.slots > kSlotsMax) return "it has too few or too many receive slots";
  if (end.reads > kReadsMax) return "it makes too many READs at a time";
  return {};
}

std::string_view defect_of(const PipeOffer& offer) {
  if (offer.gids.empty() || offer.gids.size() > kGidsMax) return "it has no GIDs, or too many";
  return defect_of(offer.end);
}

std::string_view defect_of(const PipeAnswer& answer, const PipeOffer& offer) {
  if (!contains(offer.gids, answer.dialler)) return "it names a GID that is not this host's";
  if (family_of(answer.acceptor) != family_of(answer.dialler))
    return "its two GIDs have different address families";
  return defect_of(answer.end);
}

std::vector<verbs::Gid> usable_gids(const std::vector<verbs::Gid>& port,
                                    const std::optional<verbs::Gid>& tagged) {
  std::vector<verbs::Gid> usable;
  if (tagged && contains(port, *tagged)) usable.push_back(*tagged);
  for (const verbs::Gid& gid : port) {
    if (usable.size() < kGidsMax && is_link_local(gid.bytes) && !contains(usable, gid)) usable.push_back(gid);
  }
  return usable;
}

std::optional<GidPair> choose_gids(const std::vector<verbs::Gid>& dialler,
                                   const std::vector<verbs::Gid>& acceptor) {
  for (const verbs::Gid& near : dialler) {
    for (const verbs::Gid& far : acceptor) {
      if (family_of(near) == family_of(far)) return GidPair{near, far};
    }
  }
  return std::nullopt;
}

}  // namespace pvrdma::transport::hca
