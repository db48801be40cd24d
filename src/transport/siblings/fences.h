// full_fence() and relax(): what the ends of a ring ask of the processor. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace pvrdma::transport::siblings {

// Orders all earlier stores of this thread before all its later loads. ThreadSanitizer knows no fences. On
// x86 a locked operation on a variable of this thread orders the same, and it hides no race from
// ThreadSanitizer.
inline void full_fence() {
#if defined(__SANITIZE_THREAD__) && defined(__x86_64__)
  thread_local std::atomic<std::uint32_t> own = 0;
  own.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Leaves the core's resources to its other hardware thread for a moment, in a loop that waits.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace pvrdma::transport::siblings
