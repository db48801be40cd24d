#include "preload/fork.h"

#include <pthread.h>
#include <stdbool.h>

#include "preload/channel.h"
#include "preload/descriptors.h"
#include "preload/held.h"
#include "preload/locks.h"
#include "preload/memory_file.h"

// Pages of the memory file would be one memory for parent and child, so the child maps them again as its own.
static void start_afresh(void) {
  memory_make_private();
  descriptors_forget();
  channel_forget();
  held_forget();
  renew_lock();
}

void watch_forks(void) {
  static bool watched;
  if (watched) return;
  watched = true;
  pthread_atfork(lock, unlock, start_afresh);
}
