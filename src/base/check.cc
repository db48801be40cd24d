#include "base/check.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/log_writer.h"

namespace pvrdma::internal {

void check_failed(const char* condition, const char* file, int line, const char* note) {
  log::flush(std::chrono::milliseconds(100));  // the lines that led here
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed: %s\n", file, line, condition, note);
  std::abort();
}

}  // namespace pvrdma::internal
