// CHECK: an always-on assertion about our own code. It prints the condition and aborts.
//
// Never use it on a value that a guest, a peer, a file or a user can influence: those get outcomes, not
// aborts.
#pragma once

namespace pvrdma::internal {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* note);
}  // namespace pvrdma::internal

#define PVRDMA_CHECK(condition, note)                                         \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::pvrdma::internal::check_failed(#condition, __FILE__, __LINE__, note); \
  } while (false)
