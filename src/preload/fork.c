#include "preload/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "preload/anonymous.h"
#include "preload/channel.h"
#include "preload/descriptors.h"
#include "preload/file_windows.h"
#include "preload/held.h"
#include "preload/locks.h"
#include "preload/memory_file.h"
#include "preload/next.h"
#include "preload/other_stack.h"
#include "preload/raw.h"
#include "preload/sharing.h"

static bool has_forked;

// Tells the parent that the child has its copies. Closed: there is nothing to copy.
static int copied[2] = {-1, -1};

static void close_both(void) {
  for (int i = 0; i < 2; ++i) {
    if (copied[i] >= 0) raw_close(copied[i]);
    copied[i] = -1;
  }
}

static void prepare(void) {
  lock();
  anonymous_is_inherited();
  if (memory_fd() >= 0 && syscall(SYS_pipe2, copied, O_CLOEXEC) != 0) {
    log_line(true, "the child of a fork may see later stores of its parent: no pipe: %s", strerror(errno));
  }
}

// A parent that went on at once could store to pages that the child has not copied yet.
static void wait_for_child(void) {
  if (copied[1] >= 0) {
    raw_close(copied[1]);
    copied[1] = -1;
    char byte;
    while (raw_read(copied[0], &byte, 1) < 0 && errno == EINTR) {
    }
  }
  close_both();
  unlock();
}

static void start_afresh(void) {
  channel_forget();  // first, because the copying needs free descriptors
  if (copied[0] >= 0) raw_close(copied[0]);
  copied[0] = -1;
  unshare_all();
  if (copied[1] >= 0) syscall(SYS_write, copied[1], "", 1);
  close_both();
  memory_forget();
  file_windows_forget();
  anonymous_forget();
  descriptors_forget();
  held_forget();
  renew_lock();
}

void watch_forks(void) {
  static bool watched;
  if (watched) return;
  watched = true;
  if (has_forked) anonymous_is_inherited();
  pthread_atfork(prepare, wait_for_child, start_afresh);
}

static void fork_here(void* result) {
  *(pid_t*)result = NEXT(fork)();
}

// Until the child has its copies, it has its parent's stack where that is registered. So the two would overwrite each
// other's calls; on another stack they have copies from the beginning.
EXPORTED pid_t fork(void) {
  has_forked = true;
  if (!stack_is_shared()) return NEXT(fork)();
  pid_t result;
  if (run_on_other_stack(fork_here, &result, false)) return result;
  errno = ENOMEM;
  return -1;
}
