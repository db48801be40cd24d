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
  return descriptor_open(open_locked, flags);
}

// A command between the program's memory and the exchange. The program's memory is touched without lock: if it is
// not there, the thread ends in a handler of the program.
struct call {
  uint32_t number;
  size_t command_bytes;
  uint64_t response_address;  // 0: there is no response
  size_t response_bytes;
  unsigned char command[PVRDMA_WIRE_MAX_COMMAND_BYTES];
  unsigned char response[PVRDMA_WIRE_MAX_RESPONSE_BYTES];
};

// The stand-in cannot read the option where the program has it.
static int append_option(struct call* call) {
  struct rdma_ucm_set_option option;
  const size_t at = sizeof(struct rdma_ucm_cmd_hdr);
  if (call->command_bytes < at + sizeof option) return EINVAL;
  memcpy(&option, call->command + at, sizeof option);
  if (option.optlen > sizeof call->command - call->command_bytes) return EINVAL;
  memcpy(call->command + call->command_bytes, (const void*)option.optval, option.optlen);  // NOLINT
  call->command_bytes += option.optlen;
  return 0;
}

// Returns 0 or an errno value.
static int take_command(struct call* call, const void* bytes, size_t count) {
  struct rdma_ucm_cmd_hdr header;
  if (count < sizeof header || count > sizeof call->command) return EINVAL;
  memcpy(call->command, bytes, count);
  memcpy(&header, call->command, sizeof header);
  call->number = header.cmd;
  call->command_bytes = count;
  return header.cmd == RDMA_USER_CM_CMD_SET_OPTION ? append_option(call) : 0;
}

static void give_response(const struct call* call) {
  if (call->response_address == 0) return;
  memcpy((void*)call->response_address, call->response, call->response_bytes);  // NOLINT
}

// Replaces the descriptor of the file that the id leaves by that file's number. The errno values are the kernel's.
static int name_other_file(struct exchange* exchange, size_t count) {
  struct rdma_ucm_migrate_id* const migrate = (void*)(exchange->command + sizeof(struct rdma_ucm_cmd_hdr));
  if (count < sizeof(struct rdma_ucm_cmd_hdr) + sizeof *migrate) return EINVAL;
  const int fd = (int)migrate->fd;
  if (syscall(SYS_fcntl, fd, F_GETFD) < 0) return ENOENT;
  const struct descriptor* const other = descriptor_of(fd);
  if (other == NULL || other->kind != kCmFile) return EINVAL;
  migrate->fd = other->number;
  return 0;
}

static int execute(const struct descriptor* file, struct call* call) {
  struct exchange* const exchange = channel_prepare(PVRDMA_WIRE_CM_COMMAND);
  memcpy(exchange->command, call->command, call->command_bytes);
  int error = 0;
  if (call->number == RDMA_USER_CM_CMD_MIGRATE_ID) error = name_other_file(exchange, call->command_bytes);
  if (error != 0) return error;
  exchange->request.file = file->number;
  exchange->request.command_bytes = (uint32_t)call->command_bytes;
  error = channel_ask(-1);
  if (error != 0) return error;
  call->response_address = exchange->answer.response_address;
  call->response_bytes = exchange->answer.response_bytes;
  memcpy(call->response, exchange->response, call->response_bytes);
  return 0;
}

// As in the kernel, a thread that waits when another one closes the descriptor waits for ever. Programs expect
// that, and cancel the thread or end. They do not expect an error.
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

// Executes the command on the file of this generation. It may have another number than `*fd` now, which `*fd` then becomes;
// -1: it was closed since the call began. Returns an errno value.
static int execute_locked(int* fd, uint64_t generation, struct call* call) {
  const struct descriptor* file = descriptor_of(*fd);
  if (file == NULL || file->generation != generation) {
    *fd = descriptor_number(generation);
    file = descriptor_of(*fd);
  }
  return file != NULL ? execute(file, call) : EBADF;
}

ssize_t cm_write(int fd, uint64_t generation, const void* bytes, size_t count) {
  struct call call;
  int error = take_command(&call, bytes, count);
  while (error == 0) {
    lock();
    error = execute_locked(&fd, generation, &call);
    unlock();
    if (error == 0) {
      give_response(&call);
      return (ssize_t)count;
    }
    if (call.number != RDMA_USER_CM_CMD_GET_EVENT) break;
    if (fd < 0) wait_for_nothing();
    if (error == EAGAIN) error = wait_for_event(fd);
  }
  errno = error;
  return -1;
}
