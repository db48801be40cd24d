#include "device/eventfd_signal.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

namespace pvrdma::device {
namespace {

constexpr unsigned kRequests = 256;          // completions that the context's ring can hold
constexpr std::uint32_t kReapInterval = 64;  // signals

struct AioContext {
  aio_context_t id = 0;
  Fd null;  // write-only: always ready for writing, never readable
  std::atomic<std::uint32_t> signals = 0;
  Result<> opened;  // must come last: open() fills the others

  AioContext() : opened(open()) {}

  Result<> open() {
    if (::syscall(SYS_io_setup, kRequests, &id) != 0) {
      return fail_errno(errno,
                        "cannot make a context for interrupts (asynchronous I/O): raise the sysctl "
                        "fs.aio-max-nr, or allow io_setup");
    }
    null = Fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!null) return fail_errno(errno, "cannot open /dev/null, which interrupts need");
    const Fd probe(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!probe) return fail_errno(errno, "cannot make an eventfd");
    if (!knows_eventfd(probe.get()) || knows_eventfd(null.get()) || !signal(probe.get()))
      return fail(ENOSYS,
                  "this kernel cannot signal an eventfd by asynchronous I/O: Linux 4.19 or later can");
    return {};
  }

  // Returns 0 or errno. `result_fd` is signalled when the request is done, which is at once for this kind of
  // request.
  int submit(std::uint16_t operation, int result_fd) const {
    iocb request{};
    request.aio_lio_opcode = operation;
    request.aio_fildes = static_cast<std::uint32_t>(null.get());
    request.aio_flags = IOCB_FLAG_RESFD;
    request.aio_resfd = static_cast<std::uint32_t>(result_fd);
    if (operation == IOCB_CMD_POLL) request.aio_buf = POLLOUT;
    std::array<iocb*, 1> list{&request};
    return ::syscall(SYS_io_submit, id, 1, list.data()) == 1 ? 0 : errno;
  }

  // A read from a write-only file fails with EBADF. Before that the kernel checks the result's descriptor,
  // and fails with EINVAL if it is not an eventfd. Nothing is signalled.
  bool knows_eventfd(int fd) const {
    const int flags = ::fcntl(fd, F_GETFL);
    const bool usable = flags >= 0 && (flags & O_PATH) == 0;  // O_PATH descriptors fail with EBADF, too
    return usable && submit(IOCB_CMD_PREAD, fd) == EBADF;
  }

  bool signal(int fd) {
    if (signals.fetch_add(1, std::memory_order_relaxed) % kReapInterval == 0) reap();
    if (submit(IOCB_CMD_POLL, fd) == 0) return true;
    reap();
    return submit(IOCB_CMD_POLL, fd) == 0;
  }

  // Nobody needs the completions, but they fill the ring.
  void reap() const {
    std::array<io_event, kReapInterval> unused;
    timespec at_once{};
    while (::syscall(SYS_io_getevents, id, 0, unused.size(), unused.data(), &at_once) ==
           static_cast<long>(unused.size())) {
    }
  }
};

// One for the process, as the kernel counts contexts.
AioContext& context() {
  static AioContext only;
  return only;
}

}  // namespace

Result<> open_eventfd_signals() {
  return context().opened;
}

bool is_eventfd(int fd) {
  return context().opened.has_value() && context().knows_eventfd(fd);
}

bool signal_eventfd(int fd) {
  return context().opened.has_value() && context().signal(fd);
}

}  // namespace pvrdma::device
