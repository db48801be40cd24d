// Exchanges pages of the program for others with the same content. Thread: under lock.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_exchange {
  uintptr_t at;
  size_t bytes;
  int protection;
  bool is_stack;    // the main thread's, which grows
  bool to_file;     // the new pages are those of `fd` from `offset` on, shared; else private ones
  int fd;           // borrowed
  uint64_t offset;  // a multiple of a page
  int error;        // exchange_pages() uses it
};

// Copies the pages and puts the copies in their place, while no other thread stores to them. Returns 0 or an
// errno value; then the old pages are there as before.
int exchange_pages(struct page_exchange* job);
