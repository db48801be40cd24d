// The process's mappings, read from /proc/thread-self/maps each time.
//
// A remembered table would be wrong: programs unmap and map again at the same address without this library
// noticing. Thread: any.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping {
  uintptr_t start;
  uintptr_t end;
  int protection;  // PROT_READ, PROT_WRITE, PROT_EXEC
  bool shared;
  bool special;  // [vdso], [vvar] and the like
  uint64_t offset;
  dev_t device;
  ino_t inode;  // 0: anonymous
  char name[64];
};

// Parses one line without its newline. Returns false if it is not a line of maps.
bool parse_mapping(const char* line, struct mapping* mapping);

// Calls `visit` for each mapping that overlaps [start, end), in ascending order, until it returns false.
// Returns 0, or an errno value if the file cannot be read.
int visit_mappings(uintptr_t start, uintptr_t end, bool (*visit)(const struct mapping*, void*),
                   void* context);
