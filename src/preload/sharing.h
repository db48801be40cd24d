// Makes memory of the program shared with the device, and private again. Thread: under lock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/run_list.h"

// Makes every page that [start, start + length) touches a page of the memory file, and adds them to `list` in
// order. Returns 0 or an errno value: EFAULT for memory that cannot be shared, ENOMEM. Pages that were shared
// before a failure stay so; the program does not notice.
int share_range(uintptr_t start, uint64_t length, struct run_list* list);

// Gives the program private pages again where it has pages of the memory file that nothing pins. Pages that
// cannot be exchanged stay shared.
void unshare_range(uintptr_t start, uint64_t length);

// True if the calling thread's stack, where it is now, is pages of the memory file, or if that cannot be
// known. Thread: any.
bool stack_is_shared(void);

// In the child of a fork, whose memory file is its parent's: gives it private copies of all shared pages.
void unshare_all(void);
