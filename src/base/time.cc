#include "base/time.h"

#include <array>
#include <cstdio>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"

namespace pvrdma {
namespace {

// The first number of this file is the time that the thread has run, and the second the time that it has
// waited for a core. False: the kernel does not count them, or no file can be opened.
bool read_waited(Duration& waited) {
  const Fd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 96> text{};
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return false;
  unsigned long long ran = 0;
  unsigned long long nanoseconds = 0;
  if (std::sscanf(text.data(), "%llu %llu", &ran, &nanoseconds) != 2 || ran == 0) return false;
  waited = Duration(static_cast<Duration::rep>(nanoseconds));
  return true;
}

}  // namespace

ThreadTimes SteadyClock::thread_times() const {
  ThreadTimes times{.ran = thread_cpu()};
  ThreadTimes::OffCore off_core;
  rusage usage{};
  if (read_waited(off_core.waited) && ::getrusage(RUSAGE_THREAD, &usage) == 0) {
    off_core.sleeps = static_cast<std::uint64_t>(usage.ru_nvcsw);
    times.off_core = off_core;
  }
  return times;
}

}  // namespace pvrdma
