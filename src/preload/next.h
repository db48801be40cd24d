// The function that a wrapper stands before: the next one in the order of libraries, looked up once.
#pragma once

#include <dlfcn.h>

// NEXT(open)(path, flags) calls libc's open().
#define NEXT(name)                                                                                          \
  ({                                                                                                        \
    static __typeof__(&name) next_##name;                                                                   \
    if (__builtin_expect(next_##name == NULL, 0)) next_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    next_##name;                                                                                            \
  })
