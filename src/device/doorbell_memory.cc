#include "device/doorbell_memory.h"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/registers.h"
#include "guestmem/mapped_memory.h"

namespace pvrdma::device {
namespace {

constexpr char kWhat[] = "the memory behind BAR 2";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<Fd> make_memory(std::uint64_t bytes) {
  Fd memory(::memfd_create("pvrdma-uar", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return fail_errno(errno, std::string("creating ") + kWhat);
  // The file is sparse: a page uses memory from its first access on.
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0)
    return fail_errno(errno, std::string("sizing ") + kWhat);
  if (::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0)
    return fail_errno(errno, std::string("sealing ") + kWhat);
  return memory;
}

bool is_such_memory(const Fd& memory, std::uint64_t bytes) {
  struct stat file {};
  return ::fcntl(memory.get(), F_GET_SEALS) == kSeals && ::fstat(memory.get(), &file) == 0 &&
         static_cast<std::uint64_t>(file.st_size) == bytes;
}

}  // namespace

Result<std::unique_ptr<DoorbellMemory>> DoorbellMemory::create(std::uint32_t uar_pages, DoorbellMode mode,
                                                               Fd earlier) {
  const std::uint64_t behind = std::uint64_t{uar_pages} * abi::kUarPageBytes;
  const std::uint64_t end = behind + abi::kUarPageBytes;
  const std::uint64_t offset = mode == DoorbellMode::kMapped ? abi::kUarPageBytes : behind;
  if (earlier && !is_such_memory(earlier, end))
    return fail(EINVAL, std::string(kWhat) + " that was kept belongs to another adapter");
  auto memory = earlier ? Result<Fd>(std::move(earlier)) : make_memory(end);
  if (!memory) return Failure(std::move(memory).error());

  std::unique_ptr<DoorbellMemory> made(new DoorbellMemory(*std::move(memory), offset, end));
  if (mode == DoorbellMode::kMapped) {
    if (auto mapped = made->map(); !mapped) return Failure(std::move(mapped).error());
  }
  return made;
}

Result<> DoorbellMemory::map() {
  auto mapping = guestmem::HostMapping::create(
      memory_, offset_, bytes(), PROT_READ | PROT_WRITE, damaged_,
      std::make_shared<guestmem::MappedMemory>(kWhat, "", guestmem::MappedMemory::Limits{bytes(), 1}));
  if (!mapping) return Failure(std::move(mapping).error());
  mapping_ = *std::move(mapping);
  damaged_.store(false, std::memory_order_relaxed);
  return {};
}

void DoorbellMemory::repair() {
  try {
    static_cast<void>(map());
  } catch (const std::bad_alloc&) {
  }
}

std::byte* DoorbellMemory::page(verbs::UarIndex uar_index) const {
  return mapping_->data() + uar_index * abi::kUarPageBytes - offset_;
}

}  // namespace pvrdma::device
