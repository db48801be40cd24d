#include "preload/memory_file.h"

#include <errno.h>
#include <string.h>

#include "preload/channel.h"
#include "preload/own_file.h"
#include "preload/raw.h"

enum {
  kUsed = 1u << 31,
  kMapped = 1u << 30,  // found by collect()
  kPins = kMapped - 1,
};

// Collect when more than this was taken since the last time, and more than half of what was in use then.
#define COLLECT_AFTER_PAGES 8192u

static const uint64_t kWindowBytes[MEMORY_WINDOWS_MAX] = {256ull << 20, 1ull << 30, 4ull << 30, 4ull << 30,
                                                          4ull << 30,   4ull << 30, 4ull << 30, 4ull << 30};

static struct own_file file = {.fd = -1};
static struct window {
  uint64_t offset;
  uint64_t bytes;
  uint32_t number;  // the stand-in's
  uint64_t cursor;  // the search for free pages begins at this page
} windows[MEMORY_WINDOWS_MAX];
static unsigned window_count;
static uint32_t* pages;  // of the whole file: kUsed, kMapped and the number of pins
static uint64_t taken_since_collect;
static uint64_t used_after_collect;

static uint64_t pages_max(void) {
  uint64_t bytes = 0;
  for (unsigned i = 0; i < MEMORY_WINDOWS_MAX; ++i) bytes += kWindowBytes[i];
  return bytes / kPageBytes;
}

int memory_fd(void) {
  return file.fd;
}

static int make_file(void) {
  if (pages == NULL) {
    uint32_t* const table = raw_mmap(NULL, pages_max() * sizeof *pages, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) return ENOMEM;
    pages = table;
  }
  const int fd = (int)syscall(SYS_memfd_create, "pvrdma", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return errno;
  if (syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && own_file_take(&file, fd)) return 0;
  const int error = errno;
  raw_close(fd);
  return error;
}

static int add_window(void) {
  if (window_count == MEMORY_WINDOWS_MAX) return ENOMEM;
  if (file.fd < 0) {
    const int error = make_file();
    if (error != 0) return error;
  }
  struct window* const window = &windows[window_count];
  const uint64_t offset = window_count == 0 ? 0 : window[-1].offset + window[-1].bytes;
  const uint64_t bytes = kWindowBytes[window_count];
  if (syscall(SYS_ftruncate, file.fd, (off_t)(offset + bytes)) != 0) return errno;
  struct exchange* const exchange = channel_prepare(PVRDMA_WIRE_ADD_WINDOW);
  exchange->request.value0 = offset;
  exchange->request.value1 = bytes;
  const int error = channel_ask(file.fd);
  if (error != 0) {
    log_line(true, "the adapter takes no memory window of %llu MiB: %s", (unsigned long long)(bytes >> 20),
             strerror(error));
    return error;
  }
  *window = (struct window){.offset = offset, .bytes = bytes, .number = (uint32_t)exchange->answer.value};
  ++window_count;
  return 0;
}

static bool find_free(const struct window* window, uint64_t from, uint64_t to, uint64_t wanted,
                      uint64_t* first) {
  const uint32_t* const table = pages + window->offset / kPageBytes;
  uint64_t length = 0;
  for (uint64_t at = from; at < to; ++at) {
    length = table[at] == 0 ? length + 1 : 0;
    if (length == wanted) {
      *first = at + 1 - wanted;
      return true;
    }
  }
  return false;
}

static bool take_from(struct window* window, uint64_t wanted, uint64_t* offset) {
  const uint64_t count = window->bytes / kPageBytes;
  uint64_t first;
  if (!find_free(window, window->cursor, count, wanted, &first) &&
      !find_free(window, 0, count, wanted, &first)) {
    return false;
  }
  window->cursor = first + wanted;
  const uint64_t base = window->offset / kPageBytes + first;
  for (uint64_t i = 0; i < wanted; ++i) pages[base + i] = kUsed;
  *offset = base * kPageBytes;
  taken_since_collect += wanted;
  return true;
}

static void punch(uint64_t first, uint64_t count) {
  if (!own_file_is_open(&file)) return;
  syscall(SYS_fallocate, file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(first * kPageBytes),
          (off_t)(count * kPageBytes));
}

bool memory_is_mapped_by(const struct mapping* mapping) {
  return file.fd >= 0 && mapping->shared && mapping->inode == file.inode && mapping->device == file.device;
}

static bool mark(const struct mapping* mapping, void* context) {
  (void)context;
  if (!memory_is_mapped_by(mapping)) return true;
  const uint64_t first = mapping->offset / kPageBytes;
  const uint64_t count = (mapping->end - mapping->start) / kPageBytes;
  for (uint64_t i = 0; i < count && first + i < pages_max(); ++i) pages[first + i] |= kMapped;
  return true;
}

// Frees the pages that are neither mapped nor pinned.
static void collect(void) {
  taken_since_collect = 0;
  used_after_collect = 0;
  if (window_count == 0 || visit_mappings(0, UINTPTR_MAX, mark, NULL) != 0) return;
  const struct window* const last = &windows[window_count - 1];
  const uint64_t end = (last->offset + last->bytes) / kPageBytes;
  uint64_t run = 0;
  for (uint64_t at = 0; at < end; ++at) {
    if (pages[at] == kUsed) {
      pages[at] = 0;
      ++run;
      continue;
    }
    if (run != 0) punch(at - run, run);
    run = 0;
    if (pages[at] != 0) ++used_after_collect;
    pages[at] &= ~(uint32_t)kMapped;
  }
  if (run != 0) punch(end - run, run);
}

int memory_take(size_t bytes, uint64_t* offset) {
  const uint64_t wanted = bytes / kPageBytes;
  if (file.fd >= 0 && !own_file_is_open(&file)) return EBADF;
  if (taken_since_collect > COLLECT_AFTER_PAGES && taken_since_collect > used_after_collect / 2) collect();
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (unsigned i = 0; i < window_count; ++i) {
      if (take_from(&windows[i], wanted, offset)) return 0;
    }
    if (attempt == 0 && taken_since_collect != 0) collect();
  }
  const int error = add_window();
  if (error != 0) return error;
  return take_from(&windows[window_count - 1], wanted, offset) ? 0 : ENOMEM;
}

void memory_give(uint64_t offset, size_t bytes) {
  for (uint64_t i = 0; i < bytes / kPageBytes; ++i) pages[offset / kPageBytes + i] = 0;
  punch(offset / kPageBytes, bytes / kPageBytes);
}

size_t memory_run(uint64_t offset, size_t bytes, struct pvrdma_wire_run* run) {
  for (unsigned i = 0; i < window_count; ++i) {
    const struct window* const window = &windows[i];
    if (offset < window->offset || offset >= window->offset + window->bytes) continue;
    const uint64_t inside = window->offset + window->bytes - offset;
    const size_t covered = bytes < inside ? bytes : (size_t)inside;
    *run = (struct pvrdma_wire_run){.offset = offset - window->offset,
                                    .pages = (uint32_t)(covered / kPageBytes),
                                    .window = window->number};
    return covered;
  }
  return 0;
}

// The state of the run's first page. NULL: it is in a window of another file.
static uint32_t* pages_of(const struct pvrdma_wire_run* run) {
  for (unsigned i = 0; i < window_count; ++i) {
    if (windows[i].number == run->window) return pages + (windows[i].offset + run->offset) / kPageBytes;
  }
  return NULL;
}

void memory_pin(const struct pvrdma_wire_run* run) {
  uint32_t* const first = pages_of(run);
  for (uint32_t i = 0; first != NULL && i < run->pages; ++i) first[i] = (first[i] | kUsed) + 1;
}

void memory_unpin(const struct pvrdma_wire_run* run) {
  uint32_t* const first = pages_of(run);
  for (uint32_t i = 0; first != NULL && i < run->pages; ++i) --first[i];
}

bool memory_is_pinned(uint64_t offset) {
  return (pages[offset / kPageBytes] & kPins) != 0;
}

void memory_forget(void) {
  if (file.fd < 0) return;
  own_file_close(&file);
  window_count = 0;
  memset(windows, 0, sizeof windows);
  taken_since_collect = 0;
  used_after_collect = 0;
  raw_munmap(pages, pages_max() * sizeof *pages);
  pages = NULL;
}
