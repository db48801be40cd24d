#include "preload/pool.h"

#include <string.h>

#include "preload/raw.h"

enum {
  kSlotBytes = 128,
  kSlabBytes = 65536,
};

struct slot {
  struct slot* next;
};

static struct slot* free_slots;

static bool add_slab(void) {
  char* const slab = raw_mmap(NULL, kSlabBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (slab == MAP_FAILED) return false;
  for (size_t at = 0; at < kSlabBytes; at += kSlotBytes) {
    struct slot* const slot = (struct slot*)(slab + at);
    slot->next = free_slots;
    free_slots = slot;
  }
  return true;
}

void* pool_take(size_t bytes) {
  if (bytes > kSlotBytes) {
    void* const record = raw_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return record == MAP_FAILED ? NULL : record;
  }
  if (free_slots == NULL && !add_slab()) return NULL;
  struct slot* const slot = free_slots;
  free_slots = slot->next;
  return memset(slot, 0, kSlotBytes);
}

void pool_give(void* record, size_t bytes) {
  if (bytes > kSlotBytes) {
    raw_munmap(record, bytes);
    return;
  }
  struct slot* const slot = record;
  slot->next = free_slots;
  free_slots = slot;
}
