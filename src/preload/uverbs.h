// The uverbs file: what a program does with /dev/infiniband/uverbs0 becomes requests to the stand-in. Thread:
// any, without lock.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/descriptors.h"

// As open().
int uverbs_open(int flags);
// As write(): one command.
ssize_t uverbs_write(struct descriptor* file, const void* bytes, size_t count);
// Writes a word into the doorbell page of the context of `fd`, through the stand-in. Returns 0 or an errno
// value.
int uverbs_ring(int fd, uint64_t offset, uint64_t word);
// Returns true if the context of `fd` has a doorbell page that no one looks at, so that only uverbs_ring()
// rings.
bool uverbs_is_trapped(int fd);
// Resolves a GID to a MAC. Returns 0 or an errno value.
int uverbs_resolve(const uint8_t gid[16], uint8_t mac[6]);
// Returns true if a stand-in answers, so that there is a device to list.
bool uverbs_is_there(void);
