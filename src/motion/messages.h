// The messages of a motion: the offer that starts it, and the members of the messages that follow. Messages
// that have no members are not listed here. docs/wire_format.md lists all messages.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"
#include "motion/arbiter.h"
#include "schema/rules.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

// Formats of the messages between daemons. Older daemons know only the plain format: it is for a VM that
// runs, and for QEMUs that the daemons lead.
inline constexpr int kMotionFormat = 3;
inline constexpr int kPlainMotionFormat = 2;

// The first word of a call that offers a VM, and of a call that brings a VM's memory.
inline constexpr const char* kOfferWord = "offer";
inline constexpr const char* kMemoryWord = "memory";

struct Offer {
  Motion motion;
  Duration patience{};
  bool is_question = false;  // only asks whether it would be accepted; nothing follows
  Leader leader = Leader::kDaemons;
  bool is_paused = false;  // the VM is paused, and stays so
};
Result<void> say_offer(calls::Conversation& there, const Offer& offer);
// Errors: EPROTO: it is not an offer; EPERM: this daemon cannot accept it.
Result<Offer> read_offer(const calls::Said& said);

// "accepted".
struct Acceptance {
  bool takes_draft = false;  // whether "pci" may have a draft of the adapter's state as bytes, to be tried
};

// "memory", as the first word.
struct MemoryMessage {
  std::string motion;
};

// "pci". Its bytes are a draft of the adapter's state.
struct PciMessage {
  vmm::PciImage image;
};

// "state". Its bytes are the adapter's state.
struct StateMessage {
  std::optional<bool> is_paused;  // whether the VM must stay paused; empty: as the offer says
};

// "pages". Its bytes are what the adapter has written there.
struct PagesMessage {
  std::uint64_t address = 0;  // guest-physical
};

}  // namespace pvrdma::motion

namespace pvrdma::schema {

// A flag that is left out when it is false: older daemons only look whether the member is there.
struct MentionRule : FlagRule {
  Json write(bool value) const { return value ? Json(true) : Json(nullptr); }
};

template <>
inline constexpr auto kObject<motion::Acceptance> =
    record("Acceptance", field("draft", &motion::Acceptance::takes_draft, MentionRule{}));

template <>
inline constexpr auto kObject<motion::MemoryMessage> =
    record("MemoryMessage", field("motion", &motion::MemoryMessage::motion).required());

template <>
inline constexpr auto kObject<vmm::PciImage> =
    record("PciImage", field("config", &vmm::PciImage::config, HexRule{}).required(),
           field("msix_table", &vmm::PciImage::msix_table, OptionalRule<HexRule>{}));

template <>
inline constexpr auto kObject<motion::PciMessage> =
    record("PciMessage", field("pci", &motion::PciMessage::image).required());

template <>
inline constexpr auto kObject<motion::StateMessage> =
    record("StateMessage", field("paused", &motion::StateMessage::is_paused));

template <>
inline constexpr auto kObject<motion::PagesMessage> =
    record("PagesMessage", field("at", &motion::PagesMessage::address).required());

}  // namespace pvrdma::schema
