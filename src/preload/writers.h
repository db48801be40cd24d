// Stops the process's other threads from writing to pages while these are copied. A thread that stores to
// them waits until let_writers_go(), and its store then reaches the new pages. Where userfaultfd(2) is
// forbidden or does not know the pages, as those of a program's file, all threads wait. Thread: under lock.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stopped_writers {
  int fd;  // a userfaultfd, or -1
  bool threads_halted;
  uintptr_t start;
  size_t bytes;
};

// Returns 0 or an errno value: ENOMEM also if a thread cannot be stopped.
int stop_writers(uintptr_t start, size_t bytes, struct stopped_writers* writers);
// Call it after the pages were exchanged, or when that has failed.
void let_writers_go(struct stopped_writers* writers);
