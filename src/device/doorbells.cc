#include "device/doorbells.h"

#include <cstring>

#include "abi/registers.h"

namespace pvrdma::device {

Doorbells::Written Doorbells::write(std::uint64_t offset, std::span<const std::byte> data, Instant now) {
  Written result;
  if (data.size() > kWriteBytesMax) {
    ++result.ignored;
    return result;
  }
  constexpr std::uint64_t kWord = sizeof(std::uint32_t);
  if (offset % kWord != 0 || data.size() % kWord != 0) ++result.ignored;  // the parts at the ends
  std::uint64_t at = (offset + kWord - 1) / kWord * kWord;
  for (; at + kWord <= offset + data.size(); at += kWord) {
    const std::uint64_t page = at / abi::kUarPageBytes;
    const auto word = abi::parse_uar_word(static_cast<std::uint32_t>(at % abi::kUarPageBytes));
    if (page >= uar_pages_ || !word) {
      ++result.ignored;
      continue;
    }
    std::uint32_t value = 0;
    std::memcpy(&value, data.data() + (at - offset), kWord);
    ++result.doorbells;
    ring(static_cast<verbs::UarIndex>(page), *word, value, now);
  }
  return result;
}

void Doorbells::ring(verbs::UarIndex uar, abi::UarWord word, std::uint32_t value, Instant now) {
  const std::uint32_t handle = value & abi::kDoorbellHandleMask;
  switch (word) {
    case abi::UarWord::kQp:
      // Receives come first, so that a send to the QP itself finds its buffer.
      if ((value & abi::kQpDoorbellRecv) != 0) engine_.receive_doorbell(uar, verbs::QpHandle{handle}, now);
      if ((value & abi::kQpDoorbellSend) != 0) engine_.send_doorbell(uar, verbs::QpHandle{handle}, now);
      return;
    case abi::UarWord::kCq:
      // POLL needs no action: completions are written when they happen.
      if ((value & abi::kCqDoorbellArm) != 0) {
        engine_.arm_cq(uar, verbs::CqHandle{handle}, verbs::CompletionQueue::Arm::kAny);
      } else if ((value & abi::kCqDoorbellArmSolicited) != 0) {
        engine_.arm_cq(uar, verbs::CqHandle{handle}, verbs::CompletionQueue::Arm::kSolicited);
      }
      return;
    case abi::UarWord::kSrq:
      if ((value & abi::kSrqDoorbellRecv) != 0) engine_.srq_doorbell(uar, verbs::SrqHandle{handle}, now);
      return;
  }
}

}  // namespace pvrdma::device
