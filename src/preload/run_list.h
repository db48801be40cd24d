// The runs of a command under construction: consecutive pages are joined. Thread: under lock.
#pragma once

#include <stdint.h>

#include "preload/wire.h"

struct run_list {
  struct pvrdma_wire_run* runs;  // room for PVRDMA_WIRE_MAX_RUNS
  uint32_t count;
};

// Returns 0, or ENOMEM if the list is full.
int run_list_add(struct run_list* list, uint64_t file_offset, uint64_t bytes);
