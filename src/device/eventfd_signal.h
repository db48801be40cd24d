// Signals a client's eventfd without ever blocking.
//
// write() cannot do that. Whether it blocks is a flag of the open file, which the client shares and may
// change at any moment, and a write to a full eventfd then blocks for ever. The kernel's own signal, which
// asynchronous I/O sends with a completion, never blocks: it adds to the counter, or leaves a full one
// unchanged. So an interrupt is the completion of a request that is ready at once: a poll of /dev/null. It
// costs 0.7 us, a write 0.26 us.
//
// The kernel limits such contexts for the whole system (fs.aio-max-nr), so the process has only one. Thread:
// any.
#pragma once

#include "base/result.h"

namespace pvrdma::device {

// Opens the process's context. main() calls it, so that a host without free contexts is noticed at the start;
// otherwise the first use opens it. Error: one sentence.
Result<> open_eventfd_signals();

// Whether `fd` is an eventfd. It asks the kernel code that will signal it.
bool is_eventfd(int fd);

// Adds 1 to the counter, unless it is full. False: the kernel had no memory for it.
bool signal_eventfd(int fd);

}  // namespace pvrdma::device
