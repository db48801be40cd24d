#include "guestmem/sigbus.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

namespace pvrdma::guestmem {
namespace {

// A slot changes only while its version is odd. The handler trusts what it read if the version was the same
// even number before and after. The range that a thread faults in is never being changed, because its owner
// is that thread or waits for it.
struct Slot {
  std::atomic<bool> taken = false;
  std::atomic<std::uint32_t> version = 0;
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<std::size_t> page_bytes = 0;
  std::atomic<std::atomic<bool>*> damaged = nullptr;

  void set(std::uintptr_t new_begin, std::uintptr_t new_end, std::size_t new_page_bytes,
           std::atomic<bool>* flag) {
    version.fetch_add(1, std::memory_order_acquire);
    begin.store(new_begin, std::memory_order_release);
    end.store(new_end, std::memory_order_release);
    page_bytes.store(new_page_bytes, std::memory_order_release);
    damaged.store(flag, std::memory_order_release);
    version.fetch_add(1, std::memory_order_release);
  }
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

struct Hit {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t page_bytes = 0;
  std::atomic<bool>* damaged = nullptr;
};

// Global, because a signal handler gets no argument of ours: the process has exactly one table.
std::array<Slot, kMaxSigbusRanges> slots;
std::atomic<std::size_t> next_slot = 0;  // where the search for a free slot begins
std::atomic<bool> nobodys_damage = false;

Hit look_up(std::uintptr_t address) {
  for (const Slot& slot : slots) {
    const std::uint32_t before = slot.version.load(std::memory_order_acquire);
    const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const std::uintptr_t end = slot.end.load(std::memory_order_acquire);
    const Hit hit{begin, end, slot.page_bytes.load(std::memory_order_acquire),
                  slot.damaged.load(std::memory_order_acquire)};
    const bool stable = before % 2 == 0 && slot.version.load(std::memory_order_relaxed) == before;
    if (stable && hit.damaged != nullptr && address >= begin && address < end) return hit;
  }
  return {};
}

Slot& slot_of(int slot) {
  PVRDMA_CHECK(slot >= 0 && static_cast<std::size_t>(slot) < slots.size(),
               "a slot that add_sigbus_range gave");
  return slots[static_cast<std::size_t>(slot)];
}

// Maps zeros over [page, page + bytes). The kernel may refuse a large range (vm.overcommit_memory is 2).
bool cover(std::uintptr_t page, std::size_t bytes) {
  const long outcome = ::syscall(SYS_mmap, page, bytes, PROT_READ | PROT_WRITE,
                                 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return outcome == static_cast<long>(page);
}

// Runs in signal context: atomics and raw system calls only.
void on_sigbus(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  // If si_code <= 0, a process sent the signal, and si_addr means nothing.
  const Hit hit = info->si_code > 0 ? look_up(address) : Hit{};
  if (hit.damaged != nullptr) {
    const std::uintptr_t page = hit.begin + ((address - hit.begin) & ~(hit.page_bytes - 1));
    if (cover(page, hit.end - page) || cover(page, hit.page_bytes)) {
      hit.damaged->store(true, std::memory_order_release);
      errno = saved_errno;
      return;
    }
  }
  ::signal(SIGBUS, SIG_DFL);
  ::raise(SIGBUS);  // delivered on return, or the access faults again
}

}  // namespace

Result<> install_sigbus_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGBUS, &action, nullptr) != 0) return fail_errno(errno, "installing the SIGBUS handler");
  return {};
}

int add_sigbus_range(std::byte* base, std::size_t size, std::size_t page_bytes, std::atomic<bool>& damaged) {
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  const std::size_t first = next_slot.load(std::memory_order_relaxed);
  for (std::size_t tried = 0; tried < slots.size(); ++tried) {
    const std::size_t i = (first + tried) % slots.size();
    bool expected = false;
    if (!slots[i].taken.compare_exchange_strong(expected, true, std::memory_order_acquire)) continue;
    slots[i].set(begin, begin + size, page_bytes, &damaged);
    next_slot.store(i + 1, std::memory_order_relaxed);
    return static_cast<int>(i);
  }
  return -1;
}

void disown_sigbus_range(int slot) {
  slot_of(slot).damaged.store(&nobodys_damage, std::memory_order_release);
}

void remove_sigbus_range(int slot) {
  Slot& entry = slot_of(slot);
  entry.set(0, 0, 0, nullptr);
  entry.taken.store(false, std::memory_order_release);
}

}  // namespace pvrdma::guestmem
