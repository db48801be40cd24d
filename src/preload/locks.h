// The library's one lock: around the connection to the stand-in, and around all that belongs to it (memory
// file, descriptors, counted events). Nobody holds it while waiting for an event. Thread: any.
#pragma once

void lock(void);
void unlock(void);
// Called in the child of a fork, which has only the thread that called fork(): makes the lock free.
void renew_lock(void);
