#include "preload/descriptors.h"

#include <errno.h>
#include <string.h>

#include "preload/channel.h"
#include "preload/held.h"
#include "preload/locks.h"
#include "preload/pool.h"
#include "preload/raw.h"
#include "preload/sharing.h"

enum {
  kNumbers = 65536,
};

int highest_descriptor = -1;
static struct descriptor* table[kNumbers];
static pid_t owner;  // the process whose descriptors these are

// A child of vfork() shares this memory until it executes a program, but its descriptors are its own.
static bool is_owner(void) {
  return syscall(SYS_getpid) == __atomic_load_n(&owner, __ATOMIC_ACQUIRE);
}

bool descriptor_was_ours(int fd) {
  return is_maybe_ours(fd) && __atomic_load_n(&table[fd], __ATOMIC_ACQUIRE) != NULL && is_owner();
}

bool descriptors_were_ours(unsigned first, unsigned last) {
  for (unsigned fd = first; fd <= last && is_maybe_ours((int)fd); ++fd) {
    if (descriptor_was_ours((int)fd)) return true;
  }
  return false;
}

struct descriptor* descriptor_of(int fd) {
  if (!is_maybe_ours(fd)) return NULL;
  struct descriptor* const found = __atomic_load_n(&table[fd], __ATOMIC_ACQUIRE);
  if (found == NULL) return NULL;
  struct stat status;
  if (raw_fstat(fd, &status) == 0 && status.st_ino == found->inode && status.st_dev == found->device)
    return found;
  return NULL;
}

int descriptor_number(uint64_t generation) {
  for (int fd = 0; fd <= highest_descriptor; ++fd) {
    const struct descriptor* const each = descriptor_of(fd);
    if (each != NULL && each->generation == generation) return fd;
  }
  return -1;
}

static void set_number(int fd, struct descriptor* descriptor) {
  __atomic_store_n(&table[fd], descriptor, __ATOMIC_RELEASE);
  if (fd > highest_descriptor) __atomic_store_n(&highest_descriptor, fd, __ATOMIC_RELEASE);
}

int descriptor_open(int (*open_locked)(int flags), int flags) {
  lock();
  const int fd = open_locked(flags);
  unlock();
  if (fd >= 0) return fd;
  errno = -fd;
  return -1;
}

struct descriptor* descriptor_add(int fd, enum descriptor_kind kind) {
  struct stat status;
  if (fd < 0 || fd >= kNumbers || raw_fstat(fd, &status) != 0) return NULL;
  __atomic_store_n(&owner, (pid_t)syscall(SYS_getpid), __ATOMIC_RELEASE);
  descriptor_drop(fd);
  struct descriptor* const added = pool_take(sizeof *added);
  if (added == NULL) return NULL;
  static uint64_t generations;
  *added = (struct descriptor){.kind = kind,
                               .generation = ++generations,
                               .uses = 1,
                               .device = status.st_dev,
                               .inode = status.st_ino,
                               .doorbells = NO_FILE};
  set_number(fd, added);
  return added;
}

void descriptor_copy(int from, int to) {
  if (!descriptor_was_ours(from) && !descriptor_was_ours(to)) return;
  struct descriptor* const copied = descriptor_of(from);
  descriptor_drop(to);
  if (copied == NULL || to >= kNumbers) return;
  ++copied->uses;
  set_number(to, copied);
}

static void close_file(struct descriptor* file) {
  own_file_close(&file->doorbells);
  channel_prepare(PVRDMA_WIRE_CLOSE_FILE)->request.file = file->number;
  channel_ask(-1);
  held_remove_file(file->number, unshare_range);
}

static void close_cm_file(const struct descriptor* file) {
  channel_prepare(PVRDMA_WIRE_CLOSE_CM_FILE)->request.file = file->number;
  channel_ask(-1);
}

void descriptor_drop(int fd) {
  if (!descriptor_was_ours(fd)) return;
  struct descriptor* const dropped = table[fd];
  set_number(fd, NULL);
  if (--dropped->uses != 0) return;
  if (dropped->kind == kUverbsFile) close_file(dropped);
  if (dropped->kind == kCmFile) close_cm_file(dropped);
  pool_give(dropped, sizeof *dropped);
}

void descriptors_drop_range(unsigned first, unsigned last) {
  for (unsigned fd = first; fd <= last && is_maybe_ours((int)fd); ++fd) descriptor_drop((int)fd);
}

void descriptors_forget(void) {
  for (int fd = 0; fd <= highest_descriptor; ++fd) {
    if (table[fd] != NULL) own_file_close(&table[fd]->doorbells);
    table[fd] = NULL;
  }
}
