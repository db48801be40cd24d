#include "preload/other_stack.h"

#include <stdint.h>

#include "preload/raw.h"

enum {
  kStackBytes = 1 << 20,
  kGrowthBytes = 262144,
};

#ifdef __GLIBC__

#include <ucontext.h>

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

static void call_on(void* stack, void (*function)(void*), void* argument) {
  struct crossing* const crossing = stack;
  crossing->function = function;
  crossing->argument = argument;
  getcontext(&crossing->callee);
  crossing->callee.uc_stack.ss_sp = crossing + 1;
  crossing->callee.uc_stack.ss_size = kStackBytes - sizeof *crossing;
  crossing->callee.uc_link = &crossing->caller;
  const uintptr_t at = (uintptr_t)crossing;
  makecontext(&crossing->callee, (void (*)(void))call_pending, 2, (unsigned)(at >> 32), (unsigned)at);
  swapcontext(&crossing->caller, &crossing->callee);
}

#else

// musl has no makecontext(). The called function keeps RBX.
static void call_on(void* stack, void (*function)(void*), void* argument) {
  void* const top = (char*)stack + kStackBytes;
  __asm__ volatile(
      "mov %%rsp, %%rbx\n\t"
      "mov %[top], %%rsp\n\t"
      "call *%[function]\n\t"
      "mov %%rbx, %%rsp"
      : "+D"(argument)
      : [top] "r"(top), [function] "r"(function)
      : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
        "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
}

#endif  // __GLIBC__

static __attribute__((noinline)) void grow_stack(void) {
  char below[kGrowthBytes];
  for (int at = kGrowthBytes - 1; at > 0; at -= 4096) *(volatile char*)&below[at] = 0;
}

bool run_on_other_stack(void (*function)(void*), void* argument, bool grow) {
  void* const stack = raw_mmap(NULL, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return false;
  if (grow) grow_stack();
  call_on(stack, function, argument);
  raw_munmap(stack, kStackBytes);
  return true;
}
