// Runs a function on a stack of its own: a function cannot copy the stack that it runs on. Thread: any.
#pragma once

#include <stdbool.h>

// `grow`: the caller's stack is that of the main thread, which grows by faults; it gets some pages more
// before, because it cannot grow once its lowest page is a page of a file. Returns false if there is no
// memory for the stack; the function was not called then.
bool run_on_other_stack(void (*function)(void*), void* argument, bool grow);
