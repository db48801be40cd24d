// The rdma_cm file: what a program does with /dev/infiniband/rdma_cm becomes requests to the stand-in.
// Thread: any, without lock.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "preload/descriptors.h"

// As open().
int cm_open(int flags);
// As write() to the file of this generation: one command. GET_EVENT waits for an event, unless the descriptor
// does not block; as in the kernel, it waits for ever if another thread closes the file meanwhile.
ssize_t cm_write(int fd, uint64_t generation, const void* bytes, size_t count);
