// The process's memory file: pages that the device may use. It grows in windows, each of which the stand-in
// maps.
//
// A page is in use while it is mapped somewhere or while an object of the device has it pinned. Nothing tells
// this library when the program unmaps pages, so they are found to be free by looking at the mappings, as a
// garbage collector does. Thread: under lock.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/maps.h"
#include "preload/wire.h"

enum {
  kPageBytes = PVRDMA_WIRE_PAGE_BYTES,
  MEMORY_WINDOWS_MAX = 8,
};

// The most that memory_take() gives at once.
#define MEMORY_TAKE_BYTES_MAX (128ull << 20)

// Takes `bytes` consecutive bytes of the file, a multiple of a page. Returns 0 or an errno value. The content
// is zero.
int memory_take(size_t bytes, uint64_t* offset);
// Gives back what was taken but never mapped or pinned.
void memory_give(uint64_t offset, size_t bytes);

int memory_fd(void);
// True if the mapping shows pages of this process's file, shared.
bool memory_is_mapped_by(const struct mapping* mapping);

// Pages of the file as the protocol names them. A run never leaves its window: returns how many bytes of
// [offset, offset + bytes) it has.
size_t memory_run(uint64_t offset, size_t bytes, struct pvrdma_wire_run* run);

// Runs of windows of other files are left alone.
void memory_pin(const struct pvrdma_wire_run* run);
void memory_unpin(const struct pvrdma_wire_run* run);
bool memory_is_pinned(uint64_t offset);

// In the child of a fork, after unshare_all(): closes the file.
void memory_forget(void);
