// Runs a function on a stack of its own: a function cannot copy the stack that it runs on. Thread: under
// lock.
#pragma once

#include <stdbool.h>

// Returns false if there is no memory for the stack; the function was not called then.
bool run_on_other_stack(void (*function)(void*), void* argument);
