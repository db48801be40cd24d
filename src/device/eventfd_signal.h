// Signalling a client's eventfd without ever blocking.
//
// write() cannot do it: whether it blocks is a flag of the open file, which the client shares and may change
// at any moment, and an eventfd that is full then blocks for ever. The kernel's own signal, as asynchronous
// I/O gives it with a completion, adds to the counter or leaves it full, and returns. So an interrupt is the
// completion of a request that is ready at once: a poll of /dev/null. It costs 0.7 us, a write 0.26 us.
//
// The kernel bounds such contexts over the whole system (fs.aio-max-nr), so the process has one. Thread: any.
#pragma once

#include "base/result.h"

namespace pvrdma::device {

// Opens the process's context. Called by main(), so that a host that has none left is known at the start;
// otherwise the first use does it. Error: one sentence.
Result<> open_eventfd_signals();

// Whether `fd` is an eventfd: asks the kernel code that will signal it.
bool is_eventfd(int fd);

// Adds 1 to the counter; one that is full stays so. False: the kernel had no memory for it.
bool signal_eventfd(int fd);

}  // namespace pvrdma::device
