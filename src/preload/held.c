#include "preload/held.h"

#include <string.h>

#include "preload/memory_file.h"
#include "preload/pool.h"

enum {
  kBuckets = 1024,
};

static struct held* buckets[kBuckets];
static struct held* user_buckets[kBuckets];

static struct held** bucket_of(enum object_kind kind, uint32_t handle) {
  return &buckets[(handle * 4u + (uint32_t)kind) % kBuckets];
}

static size_t bytes_of(uint32_t run_count) {
  return sizeof(struct held) + run_count * sizeof(struct pvrdma_wire_run);
}

struct held* held_add(uint32_t file, enum object_kind kind, uint32_t handle,
                      const struct pvrdma_wire_run* runs, uint32_t run_count) {
  struct held* const held = pool_take(bytes_of(run_count));
  if (held == NULL) return NULL;
  struct held** const bucket = bucket_of(kind, handle);
  held->next = *bucket;
  held->file = file;
  held->kind = kind;
  held->handle = handle;
  held->run_count = run_count;
  memcpy(held->runs, runs, run_count * sizeof runs[0]);
  *bucket = held;
  for (uint32_t i = 0; i < run_count; ++i) memory_pin(&held->runs[i]);
  return held;
}

struct held* held_find(uint32_t file, enum object_kind kind, uint32_t handle) {
  struct held* held = *bucket_of(kind, handle);
  while (held != NULL && (held->file != file || held->kind != kind || held->handle != handle))
    held = held->next;
  return held;
}

static struct held** bucket_of_user(uint64_t user_handle) {
  return &user_buckets[(user_handle / 16 ^ user_handle / 16384) % kBuckets];
}

void held_name(struct held* held, uint64_t user_handle) {
  struct held** const bucket = bucket_of_user(user_handle);
  held->user_handle = user_handle;
  held->gets_events = true;
  held->next_user = *bucket;
  *bucket = held;
}

struct held* held_find_user(uint64_t user_handle) {
  struct held* held = *bucket_of_user(user_handle);
  while (held != NULL && held->user_handle != user_handle) held = held->next_user;
  return held;
}

void held_remove(struct held* held) {
  struct held** link = bucket_of(held->kind, held->handle);
  while (*link != held) link = &(*link)->next;
  *link = held->next;
  if (held->gets_events) {
    link = bucket_of_user(held->user_handle);
    while (*link != held) link = &(*link)->next_user;
    *link = held->next_user;
  }
  for (uint32_t i = 0; i < held->run_count; ++i) memory_unpin(&held->runs[i]);
  pool_give(held, bytes_of(held->run_count));
}

void held_remove_file(uint32_t file, void (*removed_mr)(uintptr_t start, uint64_t length)) {
  for (int i = 0; i < kBuckets; ++i) {
    struct held* next;
    for (struct held* held = buckets[i]; held != NULL; held = next) {
      next = held->next;
      if (held->file != file) continue;
      const bool is_mr = held->kind == kMr;
      const uintptr_t start = held->start;
      const uint64_t length = held->length;
      held_remove(held);
      if (is_mr) removed_mr(start, length);
    }
  }
}

void held_forget(void) {
  memset(buckets, 0, sizeof buckets);
  memset(user_buckets, 0, sizeof user_buckets);
}
