#include "preload/file_windows.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "preload/channel.h"
#include "preload/memory_file.h"
#include "preload/own_file.h"
#include "preload/raw.h"

enum {
  kFileWindowsMax = PVRDMA_WIRE_MAX_WINDOWS - MEMORY_WINDOWS_MAX,
  kEntriesBytes = 4096,
};

// The daemon maps the file, so no other one gets its inode number. The descriptor stays open, because closing
// it would end the program's POSIX locks of the file.
static struct file_window {
  struct own_file file;
  uint64_t bytes;
  uint32_t number;  // the stand-in's
} windows[kFileWindowsMax];
static unsigned window_count;

static bool is_file_of(const struct stat* status, const struct mapping* mapping) {
  return S_ISREG(status->st_mode) && status->st_dev == mapping->device && status->st_ino == mapping->inode;
}

// Only memory files have seals.
static bool can_be_a_window(int fd, const struct mapping* mapping, struct stat* status) {
  return raw_fstat(fd, status) == 0 && is_file_of(status, mapping) &&
         syscall(SYS_fcntl, fd, F_GET_SEALS) >= 0 && (syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

// Returns a new descriptor of the file, or -1. Another thread may close the program's one at any time, and open
// another file by its number.
static int copy_of(int fd, const struct mapping* mapping, struct stat* status) {
  if (!can_be_a_window(fd, mapping, status)) return -1;
  const int copy = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || can_be_a_window(copy, mapping, status)) return copy;
  raw_close(copy);
  return -1;
}

// Returns a new descriptor of the file by one that the program has, or -1.
static int copy_open(const struct mapping* mapping, struct stat* status) {
  // Not /proc/self: that is the first thread, which has no descriptors any more if it has ended.
  const int folder = raw_openat(AT_FDCWD, "/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (folder < 0) return -1;
  int found = -1;
  _Alignas(struct dirent) char entries[kEntriesBytes];
  long got;
  while (found < 0 && (got = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < got && found < 0;) {
      const struct dirent* const entry = (const void*)(entries + at);
      at += entry->d_reclen;
      const int fd = entry->d_name[0] == '.' ? -1 : atoi(entry->d_name);
      if (fd >= 0) found = copy_of(fd, mapping, status);
    }
  }
  raw_close(folder);
  return found;
}

// Returns a new descriptor of the file by its name, or -1.
static int open_by_name(const struct mapping* mapping, struct stat* status) {
  if (mapping->name[0] != '/' || syscall(SYS_newfstatat, AT_FDCWD, mapping->name, status, 0) != 0 ||
      !is_file_of(status, mapping)) {
    return -1;
  }
  const int fd = raw_openat(AT_FDCWD, mapping->name, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0 || can_be_a_window(fd, mapping, status)) return fd;
  raw_close(fd);
  return -1;
}

// The window keeps the descriptor if there is no error.
static int add_window(int fd, const struct mapping* mapping, uint64_t bytes, uint32_t* number) {
  if (window_count == kFileWindowsMax) {
    log_line(true, "memory of more than %d shared files cannot be registered in the life of a process",
             kFileWindowsMax);
    return ENOMEM;
  }
  struct exchange* const exchange = channel_prepare(PVRDMA_WIRE_ADD_WINDOW);
  exchange->request.value1 = bytes;
  const int error = channel_ask(fd);
  if (error != 0) {
    log_line(true, "the adapter does not take %s as a memory window of %llu bytes: %s", mapping->name,
             (unsigned long long)bytes, strerror(error));
    return error;
  }
  *number = (uint32_t)exchange->answer.value;
  windows[window_count++] =
      (struct file_window){.file = {.fd = fd, .device = mapping->device, .inode = mapping->inode},
                           .bytes = bytes,
                           .number = *number};
  return 0;
}

int file_window(const struct mapping* mapping, uint64_t end, uint32_t* number) {
  for (unsigned i = 0; i < window_count; ++i) {
    const struct file_window* const window = &windows[i];
    if (window->file.device != mapping->device || window->file.inode != mapping->inode ||
        window->bytes < end) {
      continue;
    }
    *number = window->number;
    return 0;
  }
  struct stat status;
  int fd = copy_open(mapping, &status);
  if (fd < 0) fd = open_by_name(mapping, &status);
  if (fd < 0) return EFAULT;
  // The file's last page is whole memory, even if the file ends within it.
  const uint64_t bytes = ((uint64_t)status.st_size + kPageBytes - 1) / kPageBytes * kPageBytes;
  const int error = bytes < end ? EFAULT : add_window(fd, mapping, bytes, number);
  if (error != 0) raw_close(fd);
  return error;
}

void file_windows_forget(void) {
  while (window_count > 0) own_file_close(&windows[--window_count].file);
}
