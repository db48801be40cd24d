// Reading channels of events: one record at a time, counted by object (wire.h). Thread: any, without lock.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "preload/descriptors.h"

// As read(). A channel whose stand-in is gone says DEVICE_FATAL once, if it is the asynchronous one, then
// EIO.
ssize_t read_event(struct descriptor* channel, int fd, void* bytes, size_t count);
