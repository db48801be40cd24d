#include "preload/other_stack.h"

#include <ucontext.h>

#include "preload/raw.h"

enum {
  kStackBytes = 65536,
  kGrowthBytes = 262144,
};

// Not on the stack, which is exchanged meanwhile.
static ucontext_t caller;
static ucontext_t callee;
static void (*pending_function)(void*);
static void* pending_argument;

static void call_pending(void) {
  pending_function(pending_argument);
}

static __attribute__((noinline)) void grow_stack(void) {
  char below[kGrowthBytes];
  for (int at = kGrowthBytes - 1; at > 0; at -= 4096) *(volatile char*)&below[at] = 0;
}

bool run_on_other_stack(void (*function)(void*), void* argument, bool grow) {
  void* const stack = raw_mmap(NULL, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return false;
  if (grow) grow_stack();
  getcontext(&callee);
  callee.uc_stack.ss_sp = stack;
  callee.uc_stack.ss_size = kStackBytes;
  callee.uc_link = &caller;
  pending_function = function;
  pending_argument = argument;
  makecontext(&callee, call_pending, 0);
  swapcontext(&caller, &callee);
  raw_munmap(stack, kStackBytes);
  return true;
}
