// The messages of a motion that both of its hosts read in the same way: the offer that starts it, and a PCI
// state. docs/wire_format.md lists all messages.
//
// Thread: any.
#pragma once

#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"
#include "motion/arbiter.h"
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
calls::Json to_json(const Offer& offer);
// Errors: EPROTO: it is not an offer; EPERM: this daemon cannot accept it.
Result<Offer> read_offer(const calls::Said& said);

// "say": "accepted". It also says that the other host may send a draft of the adapter's state beforehand, to
// be tried.
calls::Json acceptance();

calls::Json to_json(const vmm::PciImage& image);
// Errors: EPROTO.
Result<vmm::PciImage> pci_image_of(const calls::Json& json);

}  // namespace pvrdma::motion
