#include "preload/halt.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "preload/pool.h"
#include "preload/raw.h"

enum {
  kThreadsMax = 16384,
  kAnswerMs = 2000,  // a thread that can run answers at once; a busy machine may let it wait
};

struct called {
  int* ids;
  int count;
};

// Both are futexes of this process. A halt has a number, so that a thread which is late for one halt, or slow to
// leave it, is not taken for one that waits in the next.
static uint32_t halt;     // the halt's number: odd while threads are to wait
static uint32_t waiting;  // the lower half of the halt's number, and how many threads wait in the handler

static long futex(uint32_t* word, int operation, uint32_t value, const struct timespec* limit) {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, limit, NULL, 0);
}

static bool join_halt(uint32_t number) {
  uint32_t seen = __atomic_load_n(&waiting, __ATOMIC_SEQ_CST);
  do {
    if (number % 2 == 0 || seen >> 16 != (number & 0xFFFF)) return false;
  } while (!__atomic_compare_exchange_n(&waiting, &seen, seen + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return true;
}

static void wait_in_handler(int signal_number) {
  (void)signal_number;
  const int saved = errno;
  const uint32_t number = __atomic_load_n(&halt, __ATOMIC_SEQ_CST);
  if (join_halt(number)) {
    futex(&waiting, FUTEX_WAKE, 1, NULL);
    while (__atomic_load_n(&halt, __ATOMIC_SEQ_CST) == number) futex(&halt, FUTEX_WAIT, number, NULL);
  }
  errno = saved;
}

// A real-time signal that has our handler, or that the program does not use and that gets it now. It keeps the
// handler, because a signal may be on its way to a thread. 0: the program uses all of them.
static int our_signal(void) {
  static int number;
  struct sigaction now;
  if (number != 0 && sigaction(number, NULL, &now) == 0 && now.sa_handler == wait_in_handler) return number;
  struct sigaction ours = {.sa_handler = wait_in_handler, .sa_flags = SA_RESTART | SA_ONSTACK};
  sigfillset(&ours.sa_mask);
  for (number = SIGRTMAX; number >= SIGRTMIN; --number) {
    const bool is_free = sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
    if (is_free && sigaction(number, &ours, NULL) == 0) return number;
  }
  number = 0;
  return 0;
}

static bool was_called(const struct called* called, int id) {
  for (int i = 0; i < called->count; ++i) {
    if (called->ids[i] == id) return true;
  }
  return false;
}

// A process's first thread stays in the list of threads, as a zombie, when it has ended before the others.
static bool first_thread_has_ended(int process) {
  char text[512];
  snprintf(text, sizeof text, "/proc/self/task/%d/stat", process);
  const int fd = raw_openat(AT_FDCWD, text, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return false;
  const ssize_t got = raw_read(fd, text, sizeof text - 1);
  raw_close(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  const char* const name_end = strrchr(text, ')');  // the program's name may have anything else
  return name_end != NULL && strncmp(name_end, ") Z", 3) == 0;
}

// The list of threads is no snapshot: it may leave out some when one ends. The number of threads is in the folder's count
// of links. Returns -1 if it is not known.
static int count_others(int folder, int process) {
  struct stat status;
  if (raw_fstat(folder, &status) != 0) return -1;
  const int others = (int)status.st_nlink - 3;  // the folder's own two, and this thread
  return first_thread_has_ended(process) ? others - 1 : others;
}

// Calls each thread that was not called yet. Returns how many other threads there are, or -1.
static int call_threads(int signal_number, struct called* called, bool* found_new) {
  const int folder = raw_openat(AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (folder < 0) return -1;
  const int process = (int)syscall(SYS_getpid);
  const int self = (int)syscall(SYS_gettid);
  *found_new = false;
  _Alignas(struct dirent) char entries[4096];
  long got;
  while ((got = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < got;) {
      const struct dirent* const entry = (const void*)(entries + at);
      at += entry->d_reclen;
      const int id = atoi(entry->d_name);
      if (id == 0 || id == self || was_called(called, id)) continue;
      if (called->count == kThreadsMax) {
        got = -1;
        break;
      }
      *found_new = true;
      const bool queued = syscall(SYS_tgkill, process, id, signal_number) == 0 || errno == ESRCH;
      if (queued) called->ids[called->count++] = id;  // else there is no room for a signal now
    }
    if (got < 0) break;
  }
  const int others = got < 0 ? -1 : count_others(folder, process);
  raw_close(folder);
  return others;
}

static uint64_t now_ms(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// A halted thread neither ends nor starts another, so all are halted when as many wait as there are.
static int wait_for_threads(int signal_number, struct called* called) {
  const struct timespec look_again = {.tv_nsec = 1000000};
  const uint64_t end = now_ms() + kAnswerMs;
  for (;;) {
    const uint32_t seen = __atomic_load_n(&waiting, __ATOMIC_SEQ_CST);
    bool found_new;
    const int others = call_threads(signal_number, called, &found_new);
    if (others < 0) return ENOMEM;
    if (!found_new && (seen & 0xFFFF) == (uint32_t)others) return 0;
    if (now_ms() > end) return ETIMEDOUT;
    futex(&waiting, FUTEX_WAIT, seen, &look_again);
  }
}

int halt_threads(void) {
  const int signal_number = our_signal();
  if (signal_number == 0) return ENOMEM;
  struct called called = {.ids = pool_take(kThreadsMax * sizeof(int))};
  if (called.ids == NULL) return ENOMEM;
  const uint32_t number = halt + 1;
  __atomic_store_n(&waiting, number << 16, __ATOMIC_SEQ_CST);
  __atomic_store_n(&halt, number, __ATOMIC_SEQ_CST);
  const int error = wait_for_threads(signal_number, &called);
  if (error != 0) resume_threads();
  pool_give(called.ids, kThreadsMax * sizeof(int));
  return error;
}

void resume_threads(void) {
  __atomic_add_fetch(&halt, 1, __ATOMIC_SEQ_CST);
  futex(&halt, FUTEX_WAKE, INT_MAX, NULL);
}
