#include "device/doorbells.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

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
    std::uint32_t value = 0;
    std::memcpy(&value, data.data() + (at - offset), kWord);
    if (ring(at, value, now)) {
      ++result.doorbells;
    } else {
      ++result.ignored;
    }
  }
  return result;
}

bool Doorbells::ring(std::uint64_t offset, std::uint32_t value, Instant now) {
  const std::uint64_t page = offset / abi::kUarPageBytes;
  if (page >= uar_pages_) return false;
  const auto uar = static_cast<verbs::UarIndex>(page);
  const auto word = abi::parse_uar_word(static_cast<std::uint32_t>(offset % abi::kUarPageBytes));
  if (!word) return false;
  const std::uint32_t handle = value & abi::kDoorbellHandleMask;
  switch (*word) {
    case abi::UarWord::kQp:
      // Receives first: a send to oneself then finds its buffer.
      if ((value & abi::kQpDoorbellRecv) != 0) engine_.receive_doorbell(uar, verbs::QpHandle{handle}, now);
      if ((value & abi::kQpDoorbellSend) != 0) engine_.send_doorbell(uar, verbs::QpHandle{handle}, now);
      return true;
    case abi::UarWord::kCq:
      // POLL needs no action: completions are written when they happen.
      if ((value & abi::kCqDoorbellArm) != 0) {
        engine_.arm_cq(uar, verbs::CqHandle{handle}, verbs::CompletionQueue::Arm::kAny);
      } else if ((value & abi::kCqDoorbellArmSolicited) != 0) {
        engine_.arm_cq(uar, verbs::CqHandle{handle}, verbs::CompletionQueue::Arm::kSolicited);
      }
      return true;
    case abi::UarWord::kSrq:
      if ((value & abi::kSrqDoorbellRecv) != 0) engine_.srq_doorbell(uar, verbs::SrqHandle{handle});
      return true;
  }
  return false;
}

Result<std::unique_ptr<ExportedPage>> ExportedPage::create(std::uint32_t uar_pages) {
  const std::uint64_t offset = std::uint64_t{uar_pages} * abi::kUarPageBytes;
  Fd memory(::memfd_create("pvrdma-uar", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return fail_errno(errno, "creating the memory of BAR 2's exported page");
  // Sparse: only the exported page can ever take memory through the guest.
  if (::ftruncate(memory.get(), static_cast<off_t>(offset + abi::kUarPageBytes)) != 0)
    return fail_errno(errno, "sizing the memory of BAR 2's exported page");
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno(errno, "sealing the memory of BAR 2's exported page");
  return std::unique_ptr<ExportedPage>(new ExportedPage(std::move(memory), offset));
}

}  // namespace pvrdma::device
