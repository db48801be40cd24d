#include "keep/change_counter.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

namespace pvrdma::keep {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<Fd> make_memory() {
  Fd memory(::memfd_create("pvrdma-changes", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), kBytes) != 0 || ::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0)
    return fail_errno(errno, "making a counter of changes");
  return memory;
}

// Whether `memory` is sealed as made above. It then cannot shrink, so reading it cannot fault.
bool is_such_memory(const Fd& memory) {
  struct stat file {};
  return ::fcntl(memory.get(), F_GET_SEALS) == kSeals && ::fstat(memory.get(), &file) == 0 &&
         file.st_size == kBytes;
}

}  // namespace

Result<std::unique_ptr<ChangeCounter>> ChangeCounter::create(Fd earlier) {
  if (earlier && !is_such_memory(earlier)) return fail(EINVAL, "the kept file is not a counter of changes");
  auto memory = earlier ? Result<Fd>(std::move(earlier)) : make_memory();
  if (!memory) return Failure(std::move(memory).error());
  void* page = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->get(), 0);
  if (page == MAP_FAILED) return fail_errno(errno, "mapping a counter of changes");
  return std::unique_ptr<ChangeCounter>(
      new ChangeCounter(*std::move(memory), static_cast<std::uint64_t*>(page)));
}

ChangeCounter::~ChangeCounter() {
  ::munmap(number_, kBytes);
}

}  // namespace pvrdma::keep
