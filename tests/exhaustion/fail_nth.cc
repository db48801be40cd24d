// A library for LD_PRELOAD. It makes the Nth allocation or system call of chosen threads of the daemon fail,
// as if memory, descriptors or mappings had run out. $PVRDMA_FAIL_CONTROL names the file of a FailControl.
//
// Only calls of the chosen threads count, because the calls of a single thread have a fixed order. Calls
// inside the C library (a mapping for malloc) do not count: if the kernel refuses one, malloc fails.
//
// Thread: any.
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <unwind.h>
#include <utility>

#include "exhaustion/fail_control.h"

// glibc's own functions, by stable names: dlsym() would allocate.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

using pvrdma::test::Call;
using pvrdma::test::FailControl;
using pvrdma::test::kSiteFrames;

FailControl* control = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local std::uint32_t own_bit =
    0;  // a Thread; 0: not a thread that can be chosen

struct Walk {
  std::size_t count = 0;
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* raw) {
  auto& walk = *static_cast<Walk*>(raw);
  control->failed_frames[walk.count++] = _Unwind_GetIP(context);
  return walk.count == kSiteFrames ? _URC_END_OF_STACK : _URC_NO_REASON;
}

bool fails(Call kind) {
  if (own_bit == 0 || control == nullptr || control->armed.load(std::memory_order_acquire) == 0) return false;
  if ((control->threads.load(std::memory_order_relaxed) & own_bit) == 0) return false;
  if ((control->kinds.load(std::memory_order_relaxed) & static_cast<std::uint32_t>(kind)) == 0) return false;
  const std::uint64_t site = control->sites.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t first = control->fail_at.load(std::memory_order_relaxed);
  if (first == 0 || site < first || site - first >= control->fail_count.load(std::memory_order_relaxed)) {
    return false;
  }
  if (control->failed.fetch_add(1, std::memory_order_relaxed) == 0) {
    control->failed_kind = static_cast<std::uint32_t>(kind);
    Walk walk;
    const std::uint32_t bit = std::exchange(own_bit, 0);  // allocations during unwinding do not count
    ::_Unwind_Backtrace(note_frame, &walk);
    own_bit = bit;
  }
  return true;
}

// The function of this name that the daemon would call without this library.
template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

template <typename Result>
Result fail_with(int code, Result result) {
  errno = code;
  return result;
}

__attribute__((constructor)) void map_control() {
  const char* path = ::getenv("PVRDMA_FAIL_CONTROL");
  if (path == nullptr) return;
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  void* at =
      fd < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(FailControl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) ::_exit(98);
  ::close(fd);
  control = static_cast<FailControl*>(at);
}

}  // namespace

extern "C" {

void* malloc(size_t size) {
  return fails(Call::kAllocation) ? fail_with<void*>(ENOMEM, nullptr) : __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  return fails(Call::kAllocation) ? fail_with<void*>(ENOMEM, nullptr) : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  return fails(Call::kAllocation) ? fail_with<void*>(ENOMEM, nullptr) : __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return fails(Call::kAllocation) ? fail_with<void*>(ENOMEM, nullptr) : __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (fails(Call::kAllocation)) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  static const auto real = next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  if (fails(Call::kMapping)) return fail_with(ENOMEM, MAP_FAILED);
  return real(at, size, protection, flags, fd, offset);
}

int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  static const auto real = next<int (*)(int, sockaddr*, socklen_t*, int)>("accept4");
  return fails(Call::kAccept) ? fail_with(EMFILE, -1) : real(fd, address, length, flags);
}
int eventfd(unsigned count, int flags) {
  static const auto real = next<int (*)(unsigned, int)>("eventfd");
  return fails(Call::kDescriptor) ? fail_with(EMFILE, -1) : real(count, flags);
}
int memfd_create(const char* name, unsigned flags) {
  static const auto real = next<int (*)(const char*, unsigned)>("memfd_create");
  return fails(Call::kDescriptor) ? fail_with(EMFILE, -1) : real(name, flags);
}
int socket(int family, int type, int protocol) {
  static const auto real = next<int (*)(int, int, int)>("socket");
  return fails(Call::kDescriptor) ? fail_with(EMFILE, -1) : real(family, type, protocol);
}
int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails(Call::kDescriptor) ? fail_with(EMFILE, -1) : real(path, flags, mode);
}

// Changing or removing a watch needs no kernel memory and cannot fail.
int epoll_ctl(int epoll, int what, int fd, epoll_event* event) {
  static const auto real = next<int (*)(int, int, int, epoll_event*)>("epoll_ctl");
  return what == EPOLL_CTL_ADD && fails(Call::kRegistering) ? fail_with(ENOSPC, -1)
                                                            : real(epoll, what, fd, event);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto real = next<ssize_t (*)(int, msghdr*, int)>("recvmsg");
  return fails(Call::kMessage) ? fail_with<ssize_t>(ENOMEM, -1) : real(fd, message, flags);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto real = next<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  return fails(Call::kMessage) ? fail_with<ssize_t>(ENOBUFS, -1) : real(fd, message, flags);
}

// Threads set their names, by which they are chosen.
int pthread_setname_np(pthread_t thread, const char* name) {
  static const auto real = next<int (*)(pthread_t, const char*)>("pthread_setname_np");
  if (::pthread_equal(thread, ::pthread_self()) != 0) {
    own_bit = 0;
    for (const auto& known : pvrdma::test::kThreads) {
      if (std::string_view(name).starts_with(known.name)) own_bit = static_cast<std::uint32_t>(known.thread);
    }
  }
  return real(thread, name);
}

}  // extern "C"
