#include "preload/anonymous.h"

#include <errno.h>
#include <string.h>

#include "preload/exchange_pages.h"
#include "preload/file_windows.h"
#include "preload/memory_file.h"
#include "preload/own_file.h"
#include "preload/raw.h"

enum { kInheritedMax = 256 };

// Small memory shares one file, because a process can have few files as windows.
#define POOL_BYTES (16ull << 20)
#define POOLED_BYTES_MAX (64ull << 10)

static ino_t inherited[kInheritedMax];
static unsigned inherited_count;  // more than kInheritedMax: all memory counts as inherited
static struct own_file pool = NO_FILE;
static uint64_t pool_used;

static bool is_anonymous(const struct mapping* mapping) {
  return mapping->shared && strcmp(mapping->name, "/dev/zero (deleted)") == 0;
}

static bool is_inherited(ino_t inode) {
  for (unsigned i = 0; i < inherited_count && i < kInheritedMax; ++i) {
    if (inherited[i] == inode) return true;
  }
  return inherited_count > kInheritedMax;
}

static bool note(const struct mapping* mapping, void* context) {
  (void)context;
  if (!is_anonymous(mapping) || is_inherited(mapping->inode)) return true;
  if (inherited_count < kInheritedMax) inherited[inherited_count] = mapping->inode;
  return ++inherited_count <= kInheritedMax;
}

void anonymous_is_inherited(void) {
  inherited_count = 0;  // memory that has gone has left its inode number to others
  if (visit_mappings(0, UINTPTR_MAX, note, NULL) != 0) inherited_count = kInheritedMax + 1;
}

bool anonymous_is_movable(const struct mapping* mapping) {
  return is_anonymous(mapping) && !is_inherited(mapping->inode);
}

struct others {
  const struct mapping* mapping;
  bool found;
};

static bool find_other(const struct mapping* mapping, void* context) {
  struct others* const others = context;
  others->found = is_anonymous(mapping) && mapping->inode == others->mapping->inode &&
                  mapping->start != others->mapping->start;
  return !others->found;
}

// Makes a memory file that a stand-in of several users takes, too. Returns 0 or an errno value.
static int make_file(uint64_t bytes, struct own_file* file) {
  const int fd = (int)syscall(SYS_memfd_create, "pvrdma-anonymous", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return errno;
  if (syscall(SYS_ftruncate, fd, (off_t)bytes) == 0 &&
      syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && own_file_take(file, fd)) {
    return 0;
  }
  const int error = errno;
  raw_close(fd);
  return error;
}

static int move_to(const struct mapping* mapping, int fd, uint64_t offset) {
  struct page_exchange job = {.at = mapping->start,
                              .bytes = mapping->end - mapping->start,
                              .protection = mapping->protection,
                              .to_file = true,
                              .fd = fd,
                              .offset = offset};
  return exchange_pages(&job);
}

static int move_to_pool(const struct mapping* mapping) {
  const uint64_t bytes = mapping->end - mapping->start;
  if (pool.fd < 0 || !own_file_is_open(&pool) || bytes > POOL_BYTES - pool_used) {
    own_file_close(&pool);
    const int error = make_file(POOL_BYTES, &pool);
    if (error != 0) return error;
    pool_used = 0;
  }
  const int error = move_to(mapping, pool.fd, pool_used);
  if (error == 0) pool_used += bytes;
  return error;
}

int anonymous_move(const struct mapping* mapping) {
  struct others others = {.mapping = mapping};
  int error = visit_mappings(0, UINTPTR_MAX, find_other, &others);
  if (error != 0) return error;
  if (others.found) {
    log_line(false, "memory at %#lx cannot be registered: it is mapped in several parts", mapping->start);
    return EFAULT;
  }
  const uint64_t bytes = mapping->end - mapping->start;
  if (bytes <= POOLED_BYTES_MAX) return move_to_pool(mapping);
  struct own_file file;
  error = make_file(bytes, &file);
  if (error != 0) return error;
  error = move_to(mapping, file.fd, 0);
  // Once the descriptor is closed, nobody can open the file.
  const struct mapping moved = {.device = file.device, .inode = file.inode, .name = "/memfd:pvrdma-anonymous"};
  uint32_t number;
  if (error == 0) error = file_window(&moved, bytes, &number);
  own_file_close(&file);
  return error;
}

void anonymous_forget(void) {
  own_file_close(&pool);
}
