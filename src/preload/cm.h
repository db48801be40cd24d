// The rdma_cm file: what a program does with /dev/infiniband/rdma_cm becomes requests to the stand-in.
// Thread: any, without lock.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "preload/descriptors.h"

// As open().
int cm_open(int flags);
// As write(): one command. GET_EVENT waits for an event, unless the descriptor does not block.
ssize_t cm_write(int fd, const void* bytes, size_t count);
