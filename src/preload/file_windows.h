// Memory that the program shares with others by a file on tmpfs or hugetlbfs, memory files included. The
// device uses the file's own pages: the whole file is a memory window, which lasts as long as the connection
// to the stand-in. Thread: under lock.
#pragma once

#include <stdint.h>

#include "preload/maps.h"

// Finds or adds the window that has the mapping's file up to byte `end`, a multiple of a page, and says its
// number. EFAULT: the file is of another kind, ends before, or can be written to neither by a descriptor of
// the program nor by its name. ENOMEM: the process has had too many files. Else the stand-in's error.
int file_window(const struct mapping* mapping, uint64_t end, uint32_t* number);

// In the child of a fork, whose connection is another one.
void file_windows_forget(void);
