#include "base/time.h"

#include <array>
#include <cstdio>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"

namespace pvrdma {
namespace {

// The second number of this file is the time that the thread has waited for a core. False: the kernel does
// not count it.
bool read_waited(Duration& waited) {
  const Fd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 96> text{};
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return false;
  unsigned long long nanoseconds = 0;
  if (std::sscanf(text.data(), "%*u %llu", &nanoseconds) != 1) return false;
  waited = Duration(static_cast<Duration::rep>(nanoseconds));
  return true;
}

}  // namespace

ThreadTimes SteadyClock::thread_times() const {
  ThreadTimes times{.ran = thread_cpu()};
  rusage usage{};
  if (read_waited(times.waited) && ::getrusage(RUSAGE_THREAD, &usage) == 0)
    times.sleeps = static_cast<std::uint64_t>(usage.ru_nvcsw);
  return times;
}

}  // namespace pvrdma
