// System calls without libc's wrappers, and the log.
//
// UCX, jemalloc and sanitizers replace libc's functions inside every library, and a replaced mmap() in the
// path of a registration hangs or recurses. So this library calls the kernel by syscall() for all that it
// does itself. Thread: any.
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORTED __attribute__((visibility("default")))

static inline int raw_openat(int folder, const char* path, int flags, mode_t mode) {
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}

static inline int raw_close(int fd) {
  return (int)syscall(SYS_close, fd);
}

static inline ssize_t raw_read(int fd, void* bytes, size_t count) {
  return syscall(SYS_read, fd, bytes, count);
}

static inline void* raw_mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return (void*)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);  // NOLINT
}

static inline int raw_munmap(void* at, size_t bytes) {
  return (int)syscall(SYS_munmap, at, bytes);
}

static inline int raw_mprotect(void* at, size_t bytes, int protection) {
  return (int)syscall(SYS_mprotect, at, bytes, protection);
}

// Moves a mapping over another one. Atomic for other threads.
static inline bool raw_mremap_over(void* from, size_t bytes, uintptr_t to) {
  return syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != -1;
}

// Copies pages of the program, which AddressSanitizer forbids memcpy() to read where they are no part of an
// object.
static inline void raw_copy(void* to, const void* from, size_t bytes) {
#ifdef __x86_64__
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    *(volatile uint64_t*)((char*)to + at) = *(const volatile uint64_t*)((const char*)from + at);  // NOLINT
  }
#endif
}

static inline int raw_fstat(int fd, struct stat* status) {
  return (int)syscall(SYS_newfstatat, fd, "", status, 0x1000 /* AT_EMPTY_PATH */);
}

// Writes one line to standard error. `always` is false for lines that only PVRDMA_LOG=1 shows.
HIDDEN void log_line(bool always, const char* format, ...) __attribute__((format(printf, 2, 3)));
