#include "motion/messages.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fmt/core.h>
#include <span>
#include <utility>

#include "base/hex.h"
#include "vocabulary/name.h"

namespace pvrdma::motion {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kPatienceSMax = 86'400;

}  // namespace

calls::Json to_json(const Offer& offer) {
  const Motion& motion = offer.motion;
  const bool is_led = offer.leader == Leader::kLibvirt;
  calls::Json text{{"say", kOfferWord},
                   {"format", is_led || offer.is_paused ? kMotionFormat : kPlainMotionFormat},
                   {"motion", motion.id},
                   {"vm", motion.vm},
                   {"from", motion.from},
                   {"to", motion.to},
                   {"patience_s",
                    static_cast<std::uint64_t>(std::chrono::duration_cast<seconds>(offer.patience).count())}};
  if (offer.is_question) text["question"] = true;
  if (is_led) text["leader"] = "libvirt";
  if (offer.is_paused) text["paused"] = true;
  return text;
}

Result<Offer> read_offer(const calls::Said& said) {
  const calls::Json& text = said.text;
  const auto format = text.find("format");
  if (!said.is(kOfferWord) || format == text.end() || !format->is_number_integer())
    return fail(EPROTO, "this is not an offer");
  if (*format != kMotionFormat && *format != kPlainMotionFormat) {
    return fail(
        EPERM,
        fmt::format("this host's pvrdmad moves VMs in formats {} and {}, the other one's in format {}: "
                    "upgrade the older one",
                    kPlainMotionFormat, kMotionFormat, format->dump()));
  }
  Offer offer;  // all other fields are names
  if (*format == kMotionFormat) {
    if (text.contains("leader")) {
      if (text.at("leader") != "libvirt")
        return fail(EPERM,
                    "the other host's pvrdmad names a leader that this one does not know: upgrade this one");
      offer.leader = Leader::kLibvirt;
    }
    offer.is_paused = text.contains("paused");
  }
  offer.is_question = text.contains("question");
  for (const auto& [member, value] :
       {std::pair("motion", &offer.motion.id), std::pair("vm", &offer.motion.vm),
        std::pair("from", &offer.motion.from), std::pair("to", &offer.motion.to)}) {
    auto found = calls::text_of(text, member);
    if (!found) return fail(EPROTO, fmt::format("the offer has no {}", member));
    if (!is_name(*found)) return fail(EPROTO, fmt::format("the {} in the offer is not a name", member));
    *value = *std::move(found);
  }
  const auto patience = text.find("patience_s");
  if (patience == text.end() || !patience->is_number_unsigned())
    return fail(EPROTO, "the offer has no patience_s");
  offer.patience = seconds(std::min(patience->get<std::uint64_t>(), kPatienceSMax));
  return offer;
}

calls::Json acceptance() {
  return {{"say", "accepted"}, {"draft", true}};
}

calls::Json to_json(const vmm::PciImage& image) {
  calls::Json json{{"config", to_hex(image.config)}};
  if (image.has_msix_table) json["msix_table"] = to_hex(image.msix_table);
  return json;
}

Result<vmm::PciImage> pci_image_of(const calls::Json& json) {
  const auto read = [&json](const char* member, std::span<std::uint8_t> into) {
    const auto text = json.is_object() ? calls::text_of(json, member) : std::nullopt;
    return text && from_hex(*text, into);
  };
  vmm::PciImage image;
  bool fine = read("config", image.config);
  image.has_msix_table = json.is_object() && json.contains("msix_table");
  if (image.has_msix_table) fine = read("msix_table", image.msix_table) && fine;
  if (fine) return image;
  return fail(EPROTO, "the other host sends an invalid PCI state");
}

}  // namespace pvrdma::motion
