// The process's file descriptors that are ours: uverbs files, rdma_cm files and channels of events.
//
// descriptor_of() is the test that every wrapper makes first: one comparison in a process without descriptors
// of ours. Thread: descriptor_of(), is_maybe_ours(), descriptor_was_ours() and descriptors_were_ours() any;
// the others under lock.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/own_file.h"

enum descriptor_kind { kUverbsFile, kCompletionChannel, kAsyncChannel, kCmFile };

struct descriptor {
  enum descriptor_kind kind;
  uint64_t generation;  // no other descriptor has or had it
  uint32_t uses;        // descriptor numbers that mean it
  dev_t device;  // of what the number must still mean: the program may have closed it without our knowledge
  ino_t inode;
  uint32_t number;            // the stand-in's: of a file, of a completion channel
  struct own_file doorbells;  // of a file with a context
  uint64_t doorbell_offset;   // of the context's page; PVRDMA_WIRE_NO_DOORBELL: doorbells are trapped
  bool fatal_was_read;        // of an asynchronous channel whose stand-in is gone
};

extern int highest_descriptor __attribute__((visibility("hidden")));  // -1: there has never been one

static inline bool is_maybe_ours(int fd) {
  return fd <= __atomic_load_n(&highest_descriptor, __ATOMIC_ACQUIRE) && fd >= 0;
}

// True if the number was ours when it was last seen, and this process is no child of vfork(), whose parent
// may wait for it with the lock. A number that is not ours cannot become so while it is open, so its close()
// needs no lock.
bool descriptor_was_ours(int fd);
// Like descriptor_was_ours(), for any number in [first, last].
bool descriptors_were_ours(unsigned first, unsigned last);
// Returns NULL if the number is not ours (any more).
struct descriptor* descriptor_of(int fd);
// Returns a number that means the descriptor of this generation, or -1 if it is closed.
int descriptor_number(uint64_t generation);
// Opens a file of ours under lock, as open() does: `open_locked` returns its number, or a negative errno
// value.
int descriptor_open(int (*open_locked)(int flags), int flags);
// Takes an open number as ours. Returns NULL without memory, or if the number is too high.
struct descriptor* descriptor_add(int fd, enum descriptor_kind kind);
// `to`, an open number, means the same as `from` now; if `from` is not ours, `to` is not either.
void descriptor_copy(int from, int to);
// The number is about to be closed. Its last number closes a uverbs or rdma_cm file at the stand-in.
void descriptor_drop(int fd);
// Numbers [first, last] are about to be closed.
void descriptors_drop_range(unsigned first, unsigned last);
// Called in the child of a fork, whose copies are ordinary descriptors.
void descriptors_forget(void);
