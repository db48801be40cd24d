#include "preload/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "preload/raw.h"

// Reads a number in `base` up to `stop`, and moves the cursor behind `stop`.
static bool take_number(const char** cursor, unsigned base, char stop, uint64_t* value) {
  uint64_t sum = 0;
  const char* at = *cursor;
  for (; *at != stop; ++at) {
    unsigned digit;
    if (*at >= '0' && *at <= '9') {
      digit = (unsigned)(*at - '0');
    } else if (*at >= 'a' && *at <= 'f') {
      digit = (unsigned)(*at - 'a') + 10;
    } else {
      return false;
    }
    if (digit >= base) return false;
    sum = sum * base + digit;
  }
  if (at == *cursor) return false;
  *cursor = at + 1;
  *value = sum;
  return true;
}

bool parse_mapping(const char* line, struct mapping* mapping) {
  uint64_t start, end, offset, major_number, minor_number, inode;
  const char* at = line;
  if (!take_number(&at, 16, '-', &start) || !take_number(&at, 16, ' ', &end)) return false;
  if (strnlen(at, 5) != 5 || at[4] != ' ') return false;
  const char* const flags = at;
  at += 5;
  if (!take_number(&at, 16, ' ', &offset) || !take_number(&at, 16, ':', &major_number) ||
      !take_number(&at, 16, ' ', &minor_number) || !take_number(&at, 10, ' ', &inode)) {
    return false;
  }
  while (*at == ' ') ++at;
  *mapping = (struct mapping){
      .start = start,
      .end = end,
      .protection = (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) |
                    (flags[2] == 'x' ? PROT_EXEC : 0),
      .shared = flags[3] == 's',
      .special = strncmp(at, "[v", 2) == 0,
      .offset = offset,
      .device = makedev((unsigned)major_number, (unsigned)minor_number),
      .inode = (ino_t)inode,
  };
  strncpy(mapping->name, at, sizeof mapping->name - 1);
  return true;
}

int visit_mappings(uintptr_t start, uintptr_t end, bool (*visit)(const struct mapping*, void*),
                   void* context) {
  // Not /proc/self: that is the first thread, which has no mappings any more if it has ended.
  const int fd = raw_openat(AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return errno;
  char text[8192];  // the kernel gives whole lines only; one line is at most a page and a path
  size_t filled = 0;
  int error = 0;
  bool more = true;
  while (more) {
    const ssize_t got = raw_read(fd, text + filled, sizeof text - 1 - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    filled += (size_t)got;
    text[filled] = '\0';
    char* line = text;
    char* newline;
    while (more && (newline = memchr(line, '\n', filled - (size_t)(line - text))) != NULL) {
      *newline = '\0';
      struct mapping mapping;
      if (parse_mapping(line, &mapping)) {
        if (mapping.start >= end) {
          more = false;
        } else if (mapping.end > start) {
          more = visit(&mapping, context);
        }
      }
      line = newline + 1;
    }
    filled -= (size_t)(line - text);
    memmove(text, line, filled);
    if (filled == sizeof text - 1) {
      error = EOVERFLOW;
      break;
    }
  }
  raw_close(fd);
  return error;
}
