#include "preload/events.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <unistd.h>

#include "preload/held.h"
#include "preload/locks.h"
#include "preload/next.h"

union event {
  struct ib_uverbs_comp_event_desc completion;
  struct ib_uverbs_async_event_desc async;
};

static size_t bytes_of(enum descriptor_kind kind) {
  return kind == kCompletionChannel ? sizeof(struct ib_uverbs_comp_event_desc)
                                    : sizeof(struct ib_uverbs_async_event_desc);
}

// Events of a port or of the device name no object.
static bool names_object(uint32_t event_type) {
  return event_type < IBV_EVENT_DEVICE_FATAL ||
         (event_type >= IBV_EVENT_SRQ_ERR && event_type <= IBV_EVENT_QP_LAST_WQE_REACHED);
}

// Returns false for an event of an object that was destroyed.
static bool count_event(enum descriptor_kind kind, const union event* event) {
  if (kind == kAsyncChannel && !names_object(event->async.event_type)) return true;
  lock();
  struct held* const held =
      held_find_user(kind == kCompletionChannel ? event->completion.cq_handle : event->async.element);
  if (held != NULL && kind == kCompletionChannel) ++held->completions_read;
  if (held != NULL && kind == kAsyncChannel) ++held->async_events_read;
  unlock();
  return held != NULL;
}

static ssize_t end_of_events(struct descriptor* channel, void* bytes) {
  if (channel->kind == kCompletionChannel || channel->fatal_was_read) {
    errno = EIO;
    return -1;
  }
  channel->fatal_was_read = true;
  const struct ib_uverbs_async_event_desc fatal = {.event_type = IBV_EVENT_DEVICE_FATAL};
  memcpy(bytes, &fatal, sizeof fatal);
  return sizeof fatal;
}

ssize_t read_event(struct descriptor* channel, int fd, void* bytes, size_t count) {
  const enum descriptor_kind kind = channel->kind;
  const size_t wanted = bytes_of(kind);
  if (count < wanted) {
    errno = EINVAL;
    return -1;
  }
  while (true) {
    union event event;
    const ssize_t got = NEXT(read)(fd, &event, wanted);  // a thread may be cancelled here, as in read()
    if (got < 0) return -1;
    if (got == 0 && descriptor_of(fd) != channel) {  // it was closed meanwhile
      errno = EBADF;
      return -1;
    }
    if (got == 0) return end_of_events(channel, bytes);
    if (!count_event(kind, &event)) continue;
    memcpy(bytes, &event, wanted);
    return (ssize_t)wanted;
  }
}
