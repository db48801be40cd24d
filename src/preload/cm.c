#include "preload/cm.h"

#include <errno.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <sys/socket.h>

#include "preload/channel.h"
#include "preload/locks.h"
#include "preload/next.h"
#include "preload/raw.h"

static int open_locked(int flags) {
  int error = channel_open();
  if (error != 0) return -error;
  struct exchange* const exchange = channel_prepare(PVRDMA_WIRE_OPEN_CM_FILE);
  error = channel_ask(-1);
  if (error != 0) return -error;
  const int fd = exchange->fds[0];
  const uint32_t number = exchange->answer.file;
  struct descriptor* const file = descriptor_add(fd, kCmFile);
  if (file == NULL) {
    if (fd >= 0) raw_close(fd);
    channel_prepare(PVRDMA_WIRE_CLOSE_CM_FILE)->request.file = number;
    channel_ask(-1);
    return -EMFILE;
  }
  file->number = number;
  if ((flags & O_NONBLOCK) != 0) syscall(SYS_fcntl, fd, F_SETFL, O_NONBLOCK);
  return fd;
}

int cm_open(int flags) {
  lock();
  const int fd = open_locked(flags);
  unlock();
  if (fd >= 0) return fd;
  errno = -fd;
  return -1;
}

// The stand-in cannot read the option where the program has it.
static int append_option(struct exchange* exchange, size_t* count) {
  struct rdma_ucm_set_option option;
  const size_t at = sizeof(struct rdma_ucm_cmd_hdr);
  if (*count < at + sizeof option) return EINVAL;
  memcpy(&option, exchange->command + at, sizeof option);
  if (option.optlen > PVRDMA_WIRE_MAX_COMMAND_BYTES - *count) return EINVAL;
  memcpy(exchange->command + *count, (const void*)option.optval, option.optlen);  // NOLINT
  *count += option.optlen;
  return 0;
}

static int name_other_file(struct exchange* exchange, size_t count) {
  struct rdma_ucm_migrate_id* const migrate = (void*)(exchange->command + sizeof(struct rdma_ucm_cmd_hdr));
  if (count < sizeof(struct rdma_ucm_cmd_hdr) + sizeof *migrate) return EINVAL;
  const struct descriptor* const other = descriptor_of((int)migrate->fd);
  if (other == NULL || other->kind != kCmFile) return EBADF;
  migrate->fd = other->number;
  return 0;
}

static int execute(const struct descriptor* file, uint32_t number, const void* bytes, size_t count) {
  struct exchange* const exchange = channel_prepare(PVRDMA_WIRE_CM_COMMAND);
  memcpy(exchange->command, bytes, count);
  int error = 0;
  if (number == RDMA_USER_CM_CMD_SET_OPTION) error = append_option(exchange, &count);
  if (number == RDMA_USER_CM_CMD_MIGRATE_ID) error = name_other_file(exchange, count);
  if (error != 0) return error;
  exchange->request.file = file->number;
  exchange->request.command_bytes = (uint32_t)count;
  error = channel_ask(-1);
  if (error == 0 && exchange->answer.response_address != 0) {
    memcpy((void*)exchange->answer.response_address, exchange->response,  // NOLINT
           exchange->answer.response_bytes);
  }
  return error;
}

// As in the kernel, a thread that waits when another one closes the descriptor waits for ever. Programs know
// that, and cancel it or end; an error would be news to them.
static void wait_for_nothing(void) {
  while (true) NEXT(poll)(NULL, 0, -1);
}

// Returns 0 when an event may be there, or an errno value. A thread may be cancelled here, as in the kernel, and a
// signal interrupts it only if its handler does not restart system calls.
static int wait_for_event(int fd) {
  if ((syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) != 0) return EAGAIN;
  char byte;
  return NEXT(recv)(fd, &byte, 1, MSG_PEEK) < 0 ? errno : 0;
}

// Executes a command on the file of the number `*fd`. `*generation` is that file's, or 0 for the first time.
// A file that has it may have another number now, which `*fd` then becomes. Returns an errno value.
static int execute_locked(int* fd, uint64_t* generation, uint32_t command, const void* bytes, size_t count) {
  const struct descriptor* file = descriptor_of(*fd);
  if (*generation != 0 && (file == NULL || file->generation != *generation)) {
    *fd = descriptor_number(*generation);
    file = descriptor_of(*fd);
  }
  if (file == NULL || file->kind != kCmFile) return EBADF;
  *generation = file->generation;
  return execute(file, command, bytes, count);
}

ssize_t cm_write(int fd, const void* bytes, size_t count) {
  struct rdma_ucm_cmd_hdr header;
  if (count < sizeof header || count > PVRDMA_WIRE_MAX_COMMAND_BYTES) {
    errno = EINVAL;
    return -1;
  }
  memcpy(&header, bytes, sizeof header);
  uint64_t generation = 0;
  bool has_waited = false;
  int error;
  while (true) {
    lock();
    error = execute_locked(&fd, &generation, header.cmd, bytes, count);
    unlock();
    if (has_waited && fd < 0) wait_for_nothing();
    if (error != EAGAIN || header.cmd != RDMA_USER_CM_CMD_GET_EVENT) break;
    error = wait_for_event(fd);
    if (error != 0) break;
    has_waited = true;
  }
  if (error == 0) return (ssize_t)count;
  errno = error;
  return -1;
}
