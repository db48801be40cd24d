#include "preload/other_stack.h"

#include <stdint.h>
#include <ucontext.h>

#include "preload/raw.h"

enum {
  kStackBytes = 1 << 20,
  kGrowthBytes = 262144,
};

// At the start of the other stack, so that any number of threads may have one, and the child of a fork its own.
struct crossing {
  ucontext_t caller;
  ucontext_t callee;
  void (*function)(void*);
  void* argument;
};

// makecontext() passes integers.
static void call_pending(unsigned high, unsigned low) {
  const struct crossing* const crossing = (void*)((uintptr_t)high << 32 | low);  // NOLINT
  crossing->function(crossing->argument);
}

static __attribute__((noinline)) void grow_stack(void) {
  char below[kGrowthBytes];
  for (int at = kGrowthBytes - 1; at > 0; at -= 4096) *(volatile char*)&below[at] = 0;
}

bool run_on_other_stack(void (*function)(void*), void* argument, bool grow) {
  struct crossing* const crossing =
      raw_mmap(NULL, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (crossing == MAP_FAILED) return false;
  if (grow) grow_stack();
  crossing->function = function;
  crossing->argument = argument;
  getcontext(&crossing->callee);
  crossing->callee.uc_stack.ss_sp = crossing + 1;
  crossing->callee.uc_stack.ss_size = kStackBytes - sizeof *crossing;
  crossing->callee.uc_link = &crossing->caller;
  const uintptr_t at = (uintptr_t)crossing;
  makecontext(&crossing->callee, (void (*)(void))call_pending, 2, (unsigned)(at >> 32), (unsigned)at);
  swapcontext(&crossing->caller, &crossing->callee);
  raw_munmap(crossing, kStackBytes);
  return true;
}
