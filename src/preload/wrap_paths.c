// Wrappers of libc's functions that take a path: paths of the kernel's RDMA files go to the stand-in's tree.
//
// All are called as libc's; see tree.h. Programs of before glibc 2.33 call the __xstat family, whose version
// argument has one value on each machine.

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/cm.h"
#include "preload/next.h"
#include "preload/raw.h"
#include "preload/tree.h"
#include "preload/uverbs.h"

#define TRANSLATED(path)         \
  char buffer_of_path[PATH_MAX]; \
  const char* const file = translate(path, buffer_of_path)

static mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

#define OPEN(name)                                       \
  EXPORTED int name(const char* path, int flags, ...) {  \
    if (is_uverbs_path(path)) return uverbs_open(flags); \
    if (is_cm_path(path)) return cm_open(flags);         \
    va_list arguments;                                   \
    va_start(arguments, flags);                          \
    const mode_t mode = mode_of(flags, arguments);       \
    va_end(arguments);                                   \
    TRANSLATED(path);                                    \
    return NEXT(name)(file, flags, mode);                \
  }
OPEN(open)

#define OPENAT(name)                                                \
  EXPORTED int name(int folder, const char* path, int flags, ...) { \
    if (is_uverbs_path(path)) return uverbs_open(flags);            \
    if (is_cm_path(path)) return cm_open(flags);                    \
    va_list arguments;                                              \
    va_start(arguments, flags);                                     \
    const mode_t mode = mode_of(flags, arguments);                  \
    va_end(arguments);                                              \
    TRANSLATED(path);                                               \
    return NEXT(name)(folder, file, flags, mode);                   \
  }
OPENAT(openat)

EXPORTED FILE* fopen(const char* path, const char* mode) {
  TRANSLATED(path);
  return NEXT(fopen)(file, mode);
}

EXPORTED DIR* opendir(const char* path) {
  if (is_device_list(path) && !uverbs_is_there()) {
    errno = ENOENT;
    return NULL;
  }
  TRANSLATED(path);
  return NEXT(opendir)(file);
}

EXPORTED int scandir(const char* path, struct dirent*** entries, int (*filter)(const struct dirent*),
                     int (*compare)(const struct dirent**, const struct dirent**)) {
  TRANSLATED(path);
  return NEXT(scandir)(file, entries, filter, compare);
}

static int status_at(int folder, const char* path, struct stat* status, int flags) {
  TRANSLATED(path);
  return (int)syscall(SYS_newfstatat, folder, file, status, flags);
}

EXPORTED int stat(const char* path, struct stat* status) {
  return status_at(AT_FDCWD, path, status, 0);
}

EXPORTED int lstat(const char* path, struct stat* status) {
  return status_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

EXPORTED int access(const char* path, int mode) {
  TRANSLATED(path);
  return NEXT(access)(file, mode);
}

EXPORTED int euidaccess(const char* path, int mode) {
  TRANSLATED(path);
  return NEXT(euidaccess)(file, mode);
}

EXPORTED int faccessat(int folder, const char* path, int mode, int flags) {
  TRANSLATED(path);
  return NEXT(faccessat)(folder, file, mode, flags);
}

EXPORTED ssize_t readlink(const char* restrict path, char* restrict target, size_t bytes) {
  TRANSLATED(path);
  return NEXT(readlink)(file, target, bytes);
}

EXPORTED ssize_t readlinkat(int folder, const char* restrict path, char* restrict target, size_t bytes) {
  TRANSLATED(path);
  return NEXT(readlinkat)(folder, file, target, bytes);
}

EXPORTED char* realpath(const char* restrict path, char* restrict resolved) {
  TRANSLATED(path);
  return NEXT(realpath)(file, resolved);
}

// The paths found are those of the tree's files, which programs can open.
EXPORTED int glob(const char* restrict pattern, int flags, int (*failed)(const char*, int),
                  glob_t* restrict found) {
  TRANSLATED(pattern);
  return NEXT(glob)(file, flags, failed, found);
}

#ifdef __GLIBC__

OPEN(open64)
OPENAT(openat64)

// With _FORTIFY_SOURCE, calls of open() without a mode become calls of these functions.
#define OPEN_2(name)                                     \
  int name(const char* path, int flags);                 \
  EXPORTED int name(const char* path, int flags) {       \
    if (is_uverbs_path(path)) return uverbs_open(flags); \
    if (is_cm_path(path)) return cm_open(flags);         \
    TRANSLATED(path);                                    \
    return NEXT(name)(file, flags);                      \
  }
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define OPENAT_2(name)                                         \
  int name(int folder, const char* path, int flags);           \
  EXPORTED int name(int folder, const char* path, int flags) { \
    if (is_uverbs_path(path)) return uverbs_open(flags);       \
    if (is_cm_path(path)) return cm_open(flags);               \
    TRANSLATED(path);                                          \
    return NEXT(name)(folder, file, flags);                    \
  }
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

EXPORTED FILE* fopen64(const char* path, const char* mode) {
  TRANSLATED(path);
  return NEXT(fopen64)(file, mode);
}

EXPORTED int scandir64(const char* path, struct dirent64*** entries, int (*filter)(const struct dirent64*),
                       int (*compare)(const struct dirent64**, const struct dirent64**)) {
  TRANSLATED(path);
  return NEXT(scandir64)(file, entries, filter, compare);
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "64-bit machines have one struct stat");

EXPORTED int stat64(const char* path, struct stat64* status) {
  return status_at(AT_FDCWD, path, (struct stat*)status, 0);
}

EXPORTED int lstat64(const char* path, struct stat64* status) {
  return status_at(AT_FDCWD, path, (struct stat*)status, AT_SYMLINK_NOFOLLOW);
}

int __xstat(int version, const char* path, struct stat* status);
EXPORTED int __xstat(int version, const char* path, struct stat* status) {
  (void)version;
  return status_at(AT_FDCWD, path, status, 0);
}

int __lxstat(int version, const char* path, struct stat* status);
EXPORTED int __lxstat(int version, const char* path, struct stat* status) {
  (void)version;
  return status_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int __xstat64(int version, const char* path, struct stat64* status);
EXPORTED int __xstat64(int version, const char* path, struct stat64* status) {
  (void)version;
  return status_at(AT_FDCWD, path, (struct stat*)status, 0);
}

int __lxstat64(int version, const char* path, struct stat64* status);
EXPORTED int __lxstat64(int version, const char* path, struct stat64* status) {
  (void)version;
  return status_at(AT_FDCWD, path, (struct stat*)status, AT_SYMLINK_NOFOLLOW);
}

EXPORTED int statx(int folder, const char* restrict path, int flags, unsigned mask,
                   struct statx* restrict status) {
  TRANSLATED(path);
  return NEXT(statx)(folder, file, flags, mask, status);
}

char* __realpath_chk(const char* path, char* resolved, size_t bytes);
EXPORTED char* __realpath_chk(const char* path, char* resolved, size_t bytes) {
  TRANSLATED(path);
  return NEXT(__realpath_chk)(file, resolved, bytes);
}

EXPORTED char* canonicalize_file_name(const char* path) {
  TRANSLATED(path);
  return NEXT(canonicalize_file_name)(file);
}

EXPORTED int glob64(const char* restrict pattern, int flags, int (*failed)(const char*, int),
                    glob64_t* restrict found) {
  TRANSLATED(pattern);
  return NEXT(glob64)(file, flags, failed, found);
}

#else

// musl has it from 1.2.5 on.
struct statx;
int statx(int folder, const char* restrict path, int flags, unsigned mask, struct statx* restrict status);
EXPORTED int statx(int folder, const char* restrict path, int flags, unsigned mask,
                   struct statx* restrict status) {
  TRANSLATED(path);
  return (int)syscall(SYS_statx, folder, file, flags, mask, status);
}

#endif  // __GLIBC__
