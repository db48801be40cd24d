// Small records without malloc(): an allocator that others replace may call back into this library while its
// lock is held. Thread: under lock (locks.h).
#pragma once

#include <stddef.h>

// Returns zeroed memory, or NULL.
void* pool_take(size_t bytes);
// `bytes` is what the record was taken with.
void pool_give(void* record, size_t bytes);
