// Messages of a motion that both of its hosts read alike: the offer that begins it, and a PCI state.
// docs/wire_format.md has all of them.
//
// Thread: any.
#pragma once

#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"
#include "motion/arbiter.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

// Formats of what daemons say to each other. Older daemons know the plain one only: of a VM that runs, and
// whose QEMUs the daemons lead.
inline constexpr int kMotionFormat = 3;
inline constexpr int kPlainMotionFormat = 2;

// The first word of a call that offers a VM, and of one that brings a VM's memory.
inline constexpr const char* kOfferWord = "offer";
inline constexpr const char* kMemoryWord = "memory";

struct Offer {
  Motion motion;
  Duration patience{};
  bool is_question = false;  // whether it would be accepted; nothing follows
  Leader leader = Leader::kDaemons;
  bool is_paused = false;  // the VM, and is to stay so
};
calls::Json to_json(const Offer& offer);
// Errors: EPROTO: it is no offer; EPERM: this daemon cannot take it.
Result<Offer> read_offer(const calls::Said& said);

// "say": "accepted"; says, too, that the saved adapter may be sent beforehand, to be tried.
calls::Json acceptance();

calls::Json to_json(const vmm::PciImage& image);
// Errors: EPROTO.
Result<vmm::PciImage> pci_image_of(const calls::Json& json);

}  // namespace pvrdma::motion
