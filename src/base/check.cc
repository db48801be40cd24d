#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pvrdma::internal {

void check_failed(const char* condition, const char* file, int line, const char* note) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed: %s\n", file, line, condition, note);
  std::abort();
}

}  // namespace pvrdma::internal
