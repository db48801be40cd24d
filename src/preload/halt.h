// Halts the process's other threads in a handler of a real-time signal, as garbage collectors do. For where
// userfaultfd is forbidden, as in most containers. A system call in which a thread waits may end with EINTR.
//
// Source: signal(7), futex(2). Thread: under lock.
#pragma once

// Returns 0 when all other threads are halted, or an errno value: ENOMEM, or ETIMEDOUT if one of them does
// not answer, for instance because it blocks the signal. No thread is halted then.
int halt_threads(void);
// Lets them go on.
void resume_threads(void);
