// What the device's objects of this process hold: pages of the memory file, and the events that the program
// has read of them. Thread: under lock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/wire.h"

enum object_kind { kMr, kCq, kQp, kSrq };

struct held {
  struct held* next;       // of its handle's bucket
  struct held* next_user;  // of its user handle's bucket
  bool gets_events;
  uint32_t file;
  enum object_kind kind;
  uint32_t handle;
  uint32_t run_count;
  uint64_t start;   // of an MR
  uint64_t length;  // of an MR
  uint64_t user_handle;
  uint32_t completions_read;
  uint32_t async_events_read;
  struct pvrdma_wire_run runs[];
};

// Pins the runs. Returns NULL without memory.
struct held* held_add(uint32_t file, enum object_kind kind, uint32_t handle,
                      const struct pvrdma_wire_run* runs, uint32_t run_count);
// Gives the object the name that is in its events.
void held_name(struct held* held, uint64_t user_handle);
struct held* held_find(uint32_t file, enum object_kind kind, uint32_t handle);
// Finds an object of any file by that name; NULL: it was destroyed.
struct held* held_find_user(uint64_t user_handle);
// Unpins the runs and forgets the object.
void held_remove(struct held* held);
// Removes everything of a file that was closed, and says of each MR, when it is removed, what it registered.
void held_remove_file(uint32_t file, void (*removed_mr)(uintptr_t start, uint64_t length));
// Called in the child of a fork: forgets all objects, which are the parent's.
void held_forget(void);
