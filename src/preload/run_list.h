// The runs of a command under construction: consecutive pages are joined. Thread: under lock.
#pragma once

#include <stdint.h>

#include "preload/wire.h"

struct run_list {
  struct pvrdma_wire_run* runs;  // room for PVRDMA_WIRE_MAX_RUNS
  uint32_t count;
};

// Adds pages of the memory file. Returns 0, or ENOMEM if the list is full.
int run_list_add(struct run_list* list, uint64_t file_offset, uint64_t bytes);
// Adds pages of another window.
int run_list_add_of_window(struct run_list* list, uint32_t window, uint64_t offset, uint64_t bytes);
