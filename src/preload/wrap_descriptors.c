// Wrappers of libc's functions that take a descriptor: uverbs and rdma_cm files, and channels of events.
//
// Without a descriptor of ours each costs one comparison (descriptors.h).

#include <errno.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/cm.h"
#include "preload/descriptors.h"
#include "preload/events.h"
#include "preload/locks.h"
#include "preload/next.h"
#include "preload/raw.h"
#include "preload/tree.h"
#include "preload/uverbs.h"

// libibverbs asks by netlink first, and scans sysfs only if the kernel has no such protocol.
EXPORTED int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA && standin_folder() != NULL) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return NEXT(socket)(domain, type, protocol);
}

EXPORTED ssize_t write(int fd, const void* bytes, size_t count) {
  struct descriptor* const ours = descriptor_of(fd);
  if (ours != NULL && ours->kind == kUverbsFile) return uverbs_write(ours, bytes, count);
  if (ours != NULL && ours->kind == kCmFile) return cm_write(fd, ours->generation, bytes, count);
  return NEXT(write)(fd, bytes, count);
}

// Returns the channel that the number means, or NULL.
static struct descriptor* channel_of(int fd) {
  struct descriptor* const ours = descriptor_of(fd);
  return ours != NULL && (ours->kind == kCompletionChannel || ours->kind == kAsyncChannel) ? ours : NULL;
}

EXPORTED ssize_t read(int fd, void* bytes, size_t count) {
  struct descriptor* const channel = channel_of(fd);
  if (channel != NULL) return read_event(channel, fd, bytes, count);
  return NEXT(read)(fd, bytes, count);
}

EXPORTED ssize_t readv(int fd, const struct iovec* parts, int count) {
  struct descriptor* const channel = channel_of(fd);
  if (channel != NULL && count > 0) return read_event(channel, fd, parts[0].iov_base, parts[0].iov_len);
  return NEXT(readv)(fd, parts, count);
}

#ifdef __GLIBC__
typedef unsigned long ioctl_request;
#else
typedef int ioctl_request;
#endif

// libibverbs takes ENOTTY as an old kernel's answer, and writes commands.
EXPORTED int ioctl(int fd, ioctl_request request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const struct descriptor* const ours = descriptor_of(fd);
  if (ours != NULL && ours->kind == kUverbsFile) {
    errno = ENOTTY;
    return -1;
  }
  return NEXT(ioctl)(fd, request, argument);
}

// Uverbs and rdma_cm files are said to be the character devices that sysfs names.
static int status_of(int fd, struct stat* status) {
  const int result = raw_fstat(fd, status);
  const struct descriptor* const ours = descriptor_of(fd);
  const bool is_device = ours != NULL && (ours->kind == kUverbsFile || ours->kind == kCmFile);
  if (result == 0 && is_device) {
    status->st_mode = S_IFCHR | 0666;
    status->st_rdev = ours->kind == kUverbsFile ? makedev(231, 192) : makedev(10, 120);
  }
  return result;
}

EXPORTED int fstat(int fd, struct stat* status) {
  return status_of(fd, status);
}

static void drop(int fd) {
  if (!descriptor_was_ours(fd)) return;
  lock();
  descriptor_drop(fd);
  unlock();
}

// Returns `to`.
static int copied(int from, int to) {
  if (to < 0 || (!descriptor_was_ours(from) && !descriptor_was_ours(to))) return to;
  lock();
  descriptor_copy(from, to);
  unlock();
  return to;
}

EXPORTED int close(int fd) {
  drop(fd);
  return NEXT(close)(fd);
}

EXPORTED int dup(int fd) {
  return copied(fd, NEXT(dup)(fd));
}

EXPORTED int dup2(int from, int to) {
  const int result = NEXT(dup2)(from, to);
  return from == to ? result : copied(from, result);
}

EXPORTED int dup3(int from, int to, int flags) {
  return copied(from, NEXT(dup3)(from, to, flags));
}

#define FCNTL(name)                                                                        \
  EXPORTED int name(int fd, int command, ...) {                                            \
    va_list arguments;                                                                     \
    va_start(arguments, command);                                                          \
    void* const argument = va_arg(arguments, void*);                                       \
    va_end(arguments);                                                                     \
    const int result = NEXT(name)(fd, command, argument);                                  \
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, result) : result; \
  }
FCNTL(fcntl)

#ifdef __GLIBC__

FCNTL(fcntl64)

ssize_t __read_chk(int fd, void* bytes, size_t count, size_t room);
EXPORTED ssize_t __read_chk(int fd, void* bytes, size_t count, size_t room) {
  struct descriptor* const channel = channel_of(fd);
  if (channel != NULL && count <= room) return read_event(channel, fd, bytes, count);
  return NEXT(__read_chk)(fd, bytes, count, room);
}

EXPORTED int fstat64(int fd, struct stat64* status) {
  return status_of(fd, (struct stat*)status);
}

int __fxstat(int version, int fd, struct stat* status);
EXPORTED int __fxstat(int version, int fd, struct stat* status) {
  (void)version;
  return status_of(fd, status);
}

int __fxstat64(int version, int fd, struct stat64* status);
EXPORTED int __fxstat64(int version, int fd, struct stat64* status) {
  (void)version;
  return status_of(fd, (struct stat*)status);
}

EXPORTED int close_range(unsigned first, unsigned last, int flags) {
  if (!(flags & (int)CLOSE_RANGE_CLOEXEC) && first <= INT32_MAX && descriptors_were_ours(first, last)) {
    lock();
    descriptors_drop_range(first, last);
    unlock();
  }
  return NEXT(close_range)(first, last, flags);
}

#endif  // __GLIBC__
