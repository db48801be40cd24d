#include "preload/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "preload/channel.h"
#include "preload/descriptors.h"
#include "preload/held.h"
#include "preload/locks.h"
#include "preload/memory_file.h"
#include "preload/raw.h"
#include "preload/sharing.h"

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
  unshare_all();
  if (copied[1] >= 0) syscall(SYS_write, copied[1], "", 1);
  close_both();
  memory_forget();
  descriptors_forget();
  channel_forget();
  held_forget();
  renew_lock();
}

void watch_forks(void) {
  static bool watched;
  if (watched) return;
  watched = true;
  pthread_atfork(prepare, wait_for_child, start_afresh);
}
