#include "preload/sharing.h"

#include <errno.h>
#include <string.h>

#include "preload/anonymous.h"
#include "preload/exchange_pages.h"
#include "preload/file_windows.h"
#include "preload/maps.h"
#include "preload/memory_file.h"
#include "preload/pool.h"
#include "preload/raw.h"

enum {
  kPartsMax = 8192,
};

// One mapping's share of a range.
struct part {
  uintptr_t start;
  uintptr_t end;
  uint64_t offset;  // in the file, if is_shared or is_of_file
  uint32_t window;  // if is_of_file
  int protection;
  bool is_shared;   // it is the memory file already
  bool is_of_file;  // another one, which the program shares
  bool is_stack;    // the main thread's, which grows
};

struct parts {
  struct part* list;
  size_t count;
  uintptr_t start;
  uintptr_t end;
  uintptr_t covered;  // everything before this address
  int error;
  struct mapping anonymous;  // if `error` is EXDEV
};

static bool add_part(const struct mapping* mapping, void* context) {
  struct parts* const parts = context;
  const uintptr_t start = mapping->start > parts->start ? mapping->start : parts->start;
  const uintptr_t end = mapping->end < parts->end ? mapping->end : parts->end;
  const uint64_t offset = mapping->offset + (start - mapping->start);
  const bool is_shared = memory_is_mapped_by(mapping);
  const bool is_of_file = !is_shared && mapping->shared;
  uint32_t window = 0;
  if (start != parts->covered) return false;  // there is a hole
  if (parts->count == kPartsMax) {
    parts->error = ENOMEM;
  } else if (!is_shared && (mapping->special || !(mapping->protection & PROT_READ))) {
    parts->error = EFAULT;
  } else if (is_of_file && anonymous_is_movable(mapping)) {
    parts->anonymous = *mapping;
    parts->error = EXDEV;
  } else if (is_of_file) {
    parts->error = file_window(mapping, offset + (end - start), &window);
  }
  if (parts->error == EFAULT) {
    log_line(false, "memory at %#lx cannot be registered: it belongs to the mapping %#lx-%#lx %s", start,
             mapping->start, mapping->end, mapping->name);
  }
  if (parts->error != 0) return false;
  parts->list[parts->count++] = (struct part){.start = start,
                                              .end = end,
                                              .offset = offset,
                                              .window = window,
                                              .protection = mapping->protection,
                                              .is_shared = is_shared,
                                              .is_of_file = is_of_file,
                                              .is_stack = strcmp(mapping->name, "[stack]") == 0};
  parts->covered = end;
  return true;
}

static uintptr_t page_floor(uintptr_t address) {
  return address & ~(uintptr_t)(kPageBytes - 1);
}

static int share_part(const struct part* part, struct run_list* list) {
  if (part->is_shared) return run_list_add(list, part->offset, part->end - part->start);
  if (part->is_of_file)
    return run_list_add_of_window(list, part->window, part->offset, part->end - part->start);
  for (uintptr_t at = part->start; at < part->end;) {
    const size_t left = part->end - at;
    const size_t bytes = left < MEMORY_TAKE_BYTES_MAX ? left : (size_t)MEMORY_TAKE_BYTES_MAX;
    struct page_exchange job = {.at = at,
                                 .bytes = bytes,
                                 .protection = part->protection,
                                 .to_file = true,
                                 .is_stack = part->is_stack};
    int error = memory_take(bytes, &job.offset);
    if (error != 0) return error;
    job.fd = memory_fd();
    error = exchange_pages(&job);
    if (error != 0) {
      memory_give(job.offset, bytes);
      return error;
    }
    error = run_list_add(list, job.offset, bytes);
    if (error != 0) return error;
    at += bytes;
  }
  return 0;
}

static int find_parts(uintptr_t start, uint64_t length, struct parts* parts) {
  *parts = (struct parts){.start = page_floor(start), .covered = page_floor(start)};
  if (length == 0 || start + length < start || start + length > UINTPTR_MAX - kPageBytes) return EINVAL;
  parts->end = page_floor(start + length + kPageBytes - 1);
  parts->list = pool_take(kPartsMax * sizeof parts->list[0]);
  return parts->list != NULL ? 0 : ENOMEM;
}

static void drop_parts(struct parts* parts) {
  pool_give(parts->list, kPartsMax * sizeof parts->list[0]);
}

int share_range(uintptr_t start, uint64_t length, struct run_list* list) {
  struct parts parts;
  int error = find_parts(start, length, &parts);
  if (error != 0) return error;
  do {
    parts.covered = parts.start;
    parts.count = 0;
    parts.error = 0;
    error = visit_mappings(parts.start, parts.end, add_part, &parts);
    if (error == 0) error = parts.error;
  } while (error == EXDEV && (error = anonymous_move(&parts.anonymous)) == 0);
  if (error == 0 && parts.covered != parts.end) {
    log_line(false, "memory at %#lx cannot be registered: nothing is mapped there", parts.covered);
    error = EFAULT;
  }
  for (size_t i = 0; i < parts.count && error == 0; ++i) error = share_part(&parts.list[i], list);
  drop_parts(&parts);
  return error;
}

static bool add_own_part(const struct mapping* mapping, void* context) {
  struct parts* const parts = context;
  if (!memory_is_mapped_by(mapping)) return true;
  parts->covered = mapping->start > parts->start ? mapping->start : parts->start;
  return add_part(mapping, parts);
}

// Exchanges the longest pieces that nothing pins. Returns false if one cannot be exchanged: others could not
// either, and each attempt may take seconds.
static bool unshare_part(const struct part* part) {
  uintptr_t at = part->start;
  while (at < part->end) {
    uintptr_t end = at;
    while (end < part->end && !memory_is_pinned(part->offset + (end - part->start))) end += kPageBytes;
    if (end > at && (part->protection & PROT_READ)) {
      struct page_exchange job = {.at = at, .bytes = end - at, .protection = part->protection};
      if (exchange_pages(&job) != 0) return false;
      memory_give(part->offset + (at - part->start), end - at);
    }
    at = end + kPageBytes;
  }
  return true;
}

void unshare_range(uintptr_t start, uint64_t length) {
  struct parts parts;
  if (find_parts(start, length, &parts) != 0) return;
  visit_mappings(parts.start, parts.end, add_own_part, &parts);
  for (size_t i = 0; i < parts.count && unshare_part(&parts.list[i]); ++i) {
  }
  drop_parts(&parts);
}

static void copy_part(const struct part* part) {
  const size_t bytes = part->end - part->start;
  struct page_exchange job = {.at = part->start, .bytes = bytes, .protection = part->protection};
  if (!(part->protection & PROT_READ)) raw_mprotect((void*)part->start, bytes, PROT_READ);  // NOLINT
  if (exchange_pages(&job) == 0) return;
  log_line(
      true,
      "no memory for a copy of %zu bytes at %#lx: this child of a fork may see later stores of its parent",
      bytes, part->start);
  raw_mmap((void*)part->start, bytes, part->protection, MAP_PRIVATE | MAP_FIXED, memory_fd(),  // NOLINT
           (off_t)part->offset);
}

void unshare_all(void) {
  if (memory_fd() < 0) return;
  struct parts parts = {.end = UINTPTR_MAX, .list = pool_take(kPartsMax * sizeof parts.list[0])};
  int error = parts.list == NULL ? ENOMEM : 0;
  do {
    parts.start = parts.covered;
    parts.count = 0;
    parts.error = 0;
    if (error == 0) error = visit_mappings(parts.start, parts.end, add_own_part, &parts);
    for (size_t i = 0; i < parts.count; ++i) copy_part(&parts.list[i]);
  } while (parts.error == ENOMEM);
  if (error != 0) log_line(true, "this child of a fork shares memory with its parent: %s", strerror(error));
  if (parts.list != NULL) drop_parts(&parts);
}

// What the mappings below and at an address are.
struct surroundings {
  uintptr_t here;
  bool is_mapped;  // a mapping contains the address
  bool is_shared;
};

static bool look_around(const struct mapping* mapping, void* context) {
  struct surroundings* const found = context;
  if (found->here >= mapping->start && found->here < mapping->end) found->is_mapped = true;
  found->is_shared = memory_is_mapped_by(mapping);
  return !found->is_shared;
}

bool stack_is_shared(void) {
  if (memory_fd() < 0) return false;
  const uintptr_t below = 65536;  // what fork() and its handlers may use
  struct surroundings found = {.here = (uintptr_t)__builtin_frame_address(0)};
  if (visit_mappings(found.here - below, found.here + 1, look_around, &found) != 0) return true;
  return found.is_shared || !found.is_mapped;
}
