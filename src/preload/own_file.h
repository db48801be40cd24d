// A descriptor that the library has for itself. The program does not know it and may close it, as daemons
// close all that they have inherited. Its number then means nothing, or another file. Thread: under lock.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct own_file {
  int fd;  // -1: none
  dev_t device;
  ino_t inode;
};

#define NO_FILE ((struct own_file){.fd = -1})

// Takes an open descriptor. Returns false if it is not open.
bool own_file_take(struct own_file* own, int fd);
// False if the program has closed it; the log says so then.
bool own_file_is_open(const struct own_file* own);
// Closes it if it is still open.
void own_file_close(struct own_file* own);
