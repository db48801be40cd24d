// The child of a fork: it may not use its parent's adapter, as with a kernel's, and gets memory of its own.
// As in a kernel, which copies the pages that a device may use, the fork takes the time to copy the
// registered memory.
#pragma once

// Registers the handlers; later calls do nothing. Thread: under lock.
void watch_forks(void);
