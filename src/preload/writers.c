#include "preload/writers.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "preload/halt.h"
#include "preload/memory_file.h"
#include "preload/raw.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static bool has_one_thread(void) {
  char text[512];
  const int fd = raw_openat(AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return false;
  const ssize_t got = raw_read(fd, text, sizeof text - 1);
  raw_close(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  const char* at = strrchr(text, ')');  // the program's name may have anything else
  for (int field = 2; at != NULL && field < 20; ++field) at = strchr(at + 1, ' ');
  return at != NULL && strtol(at, NULL, 10) == 1;
}

static int protect(int fd, uintptr_t start, size_t bytes, uint64_t mode) {
  struct uffdio_writeprotect range = {.range = {start, bytes}, .mode = mode};
  return syscall(SYS_ioctl, fd, UFFDIO_WRITEPROTECT, &range) == 0 ? 0 : errno;
}

static int watch(int fd, uintptr_t start, size_t bytes) {
  struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
  if (syscall(SYS_ioctl, fd, UFFDIO_API, &api) != 0) return errno;
  struct uffdio_register range = {.range = {start, bytes}, .mode = UFFDIO_REGISTER_MODE_WP};
  if (syscall(SYS_ioctl, fd, UFFDIO_REGISTER, &range) != 0) return errno;
  // Only present pages can be protected; reading a page makes it present.
  for (size_t at = 0; at < bytes; at += kPageBytes) (void)*(volatile const char*)(start + at);  // NOLINT
  return protect(fd, start, bytes, UFFDIO_WRITEPROTECT_MODE_WP);
}

int stop_writers(uintptr_t start, size_t bytes, struct stopped_writers* writers) {
  *writers = (struct stopped_writers){.fd = -1, .start = start, .bytes = bytes};
  if (has_one_thread()) return 0;
  // While writers are stopped, this thread writes to its thread-local memory. It would stop itself for ever.
  const uintptr_t own = (uintptr_t)&errno;
  if (own >= start && own < start + bytes) return EFAULT;
  writers->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  const int error = writers->fd < 0 ? errno : watch(writers->fd, start, bytes);
  if (error == 0) return 0;
  if (writers->fd >= 0) raw_close(writers->fd);
  writers->fd = -1;
  const int not_halted = halt_threads();
  writers->threads_halted = not_halted == 0;
  if (writers->threads_halted) return 0;
  log_line(true,
           "memory at %#lx cannot be registered: other threads cannot be stopped from writing to it meanwhile, neither by "
           "userfaultfd (%s) nor by a real-time signal (%s): allow userfaultfd, or unblock the signals in all threads",
           start, strerror(error), strerror(not_halted));
  return ENOMEM;
}

void let_writers_go(struct stopped_writers* writers) {
  if (writers->threads_halted) resume_threads();
  if (writers->fd < 0) return;
  protect(writers->fd, writers->start, writers->bytes, 0);  // without effect on exchanged pages
  struct uffdio_range range = {writers->start, writers->bytes};
  syscall(SYS_ioctl, writers->fd, UFFDIO_WAKE, &range);
  raw_close(writers->fd);
}
