// The connection to the stand-in: one per process, made at its first use (wire.h). Thread: under lock.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "preload/wire.h"

// A request under construction and its answer. Large, so there is one.
struct exchange {
  struct pvrdma_wire_request request;
  unsigned char command[PVRDMA_WIRE_MAX_COMMAND_BYTES];
  struct pvrdma_wire_run runs[PVRDMA_WIRE_MAX_RUNS];

  struct pvrdma_wire_answer answer;
  unsigned char response[PVRDMA_WIRE_MAX_RESPONSE_BYTES];
  int fds[PVRDMA_WIRE_MAX_FDS];  // -1 where there is none; the caller owns them
};

// Returns 0 when the stand-in has said HELLO, now or earlier; otherwise an errno value.
int channel_open(void);
// The exchange, with an empty request of this type. Call channel_open() first.
struct exchange* channel_prepare(uint32_t type);
// Sends the request, with `fd` unless it is -1, and waits for the answer. Returns 0 or the answer's error.
// EIO: the stand-in is gone; it stays so.
int channel_ask(int fd);
// Closes the connection without a word: in the child of a fork.
void channel_forget(void);
