// The child of a fork: it may not use its parent's adapter, as with a kernel's, and gets memory of its own.
#pragma once

// Registers the handlers; later calls do nothing. Thread: under lock.
void watch_forks(void);
