#include "preload/uverbs.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/vmw_pvrdma-abi.h>
#include <string.h>
#include <time.h>

#include "preload/channel.h"
#include "preload/held.h"
#include "preload/locks.h"
#include "preload/maps.h"
#include "preload/memory_file.h"
#include "preload/raw.h"
#include "preload/sharing.h"

// A command under way. `body` is the copy that is sent, behind its header.
struct command {
  struct descriptor* file;
  struct exchange* exchange;
  uint32_t number;
  unsigned char* body;
  size_t body_bytes;
  struct run_list runs;
};

enum { kLooksMax = 2000 };  // a millisecond apart

// The fixed part of a command, or NULL if the command is shorter.
#define BODY(command, type) \
  ((command)->body_bytes >= sizeof(type) ? (type*)(void*)(command)->body : (type*)NULL)

bool uverbs_is_there(void) {
  lock();
  const int error = channel_open();
  unlock();
  return error == 0;
}

static int open_locked(int flags) {
  int error = channel_open();
  if (error != 0) return -error;
  channel_prepare(PVRDMA_WIRE_OPEN_FILE);
  error = channel_ask(-1);
  if (error != 0) return -error;
  const uint32_t number = channel_prepare(0)->answer.file;
  // The provider maps one page of its file for doorbells. A memory file of this descriptor's own makes that
  // mapping findable by its inode.
  const int fd = (int)syscall(SYS_memfd_create, "uverbs0", (flags & O_CLOEXEC) ? MFD_CLOEXEC : 0);
  struct descriptor* file = NULL;
  if (fd >= 0 && syscall(SYS_ftruncate, fd, (off_t)kPageBytes) == 0) file = descriptor_add(fd, kUverbsFile);
  if (file == NULL) {
    if (fd >= 0) raw_close(fd);
    channel_prepare(PVRDMA_WIRE_CLOSE_FILE)->request.file = number;
    channel_ask(-1);
    return -EMFILE;
  }
  file->number = number;
  return fd;
}

int uverbs_open(int flags) {
  return descriptor_open(open_locked, flags);
}

struct placing {
  const struct descriptor* file;
  int error;
};

static bool place_doorbell_page(const struct mapping* mapping, void* context) {
  struct placing* const placing = context;
  const struct descriptor* const file = placing->file;
  if (mapping->inode != file->inode || mapping->device != file->device) return true;
  for (uintptr_t at = mapping->start; at < mapping->end; at += kPageBytes) {
    if (raw_mmap((void*)at, kPageBytes, mapping->protection, MAP_SHARED | MAP_FIXED, file->doorbells.fd,  // NOLINT
                 (off_t)file->doorbell_offset) == MAP_FAILED) {
      placing->error = errno;
      return false;
    }
  }
  return true;
}

// The provider has mapped the file, and its queues need the page that the device looks at.
static int place_doorbells(const struct descriptor* file) {
  if (file->doorbell_offset == PVRDMA_WIRE_NO_DOORBELL) return 0;
  if (!own_file_is_open(&file->doorbells)) return EBADF;
  struct placing placing = {.file = file};
  const int error = visit_mappings(0, UINTPTR_MAX, place_doorbell_page, &placing);
  if (placing.error != 0) log_line(true, "the doorbell page cannot be mapped: %s", strerror(placing.error));
  return error != 0 ? error : placing.error;
}

// Shares a buffer of the provider, which maps it for itself in whole pages.
static int share_buffer(struct command* command, uint64_t address, uint64_t bytes) {
  if (bytes == 0) return 0;
  return share_range(address, bytes, &command->runs);
}

static int prepare_cq(struct command* command) {
  struct ib_uverbs_create_cq* const body = BODY(command, struct ib_uverbs_create_cq);
  if (body == NULL || command->body_bytes < sizeof *body + sizeof(struct pvrdma_create_cq)) return EINVAL;
  if (body->comp_channel != -1) {
    const struct descriptor* const channel = descriptor_of(body->comp_channel);
    if (channel == NULL || channel->kind != kCompletionChannel) return EBADF;
    body->comp_channel = (int32_t)channel->number;
  }
  struct pvrdma_create_cq own;
  memcpy(&own, body->driver_data, sizeof own);
  return share_buffer(command, own.buf_addr, own.buf_size);
}

static int prepare_srq(struct command* command) {
  const struct ib_uverbs_create_srq* const body = BODY(command, struct ib_uverbs_create_srq);
  if (body == NULL || command->body_bytes < sizeof *body + sizeof(struct pvrdma_create_srq)) return EINVAL;
  struct pvrdma_create_srq own;
  memcpy(&own, body->driver_data, sizeof own);
  return share_buffer(command, own.buf_addr, own.buf_size);
}

static int prepare_qp(struct command* command) {
  const struct ib_uverbs_create_qp* const body = BODY(command, struct ib_uverbs_create_qp);
  if (body == NULL || command->body_bytes < sizeof *body + sizeof(struct pvrdma_create_qp)) return EINVAL;
  struct pvrdma_create_qp own;
  memcpy(&own, body->driver_data, sizeof own);
  const int error = share_buffer(command, own.sbuf_addr, own.sbuf_size);
  return error != 0 || body->is_srq ? error : share_buffer(command, own.rbuf_addr, own.rbuf_size);
}

static int prepare_mr(struct command* command) {
  const struct ib_uverbs_reg_mr* const body = BODY(command, struct ib_uverbs_reg_mr);
  if (body == NULL || body->length == 0) return EINVAL;
  return share_range(body->start, body->length, &command->runs);
}

// Shares the memory that the command names with the device, and gives the queues their doorbell page. Returns 0 or an
// errno value.
static int prepare(struct command* command) {
  int error;
  switch (command->number) {
    case IB_USER_VERBS_CMD_CREATE_CQ:
      error = prepare_cq(command);
      break;
    case IB_USER_VERBS_CMD_CREATE_SRQ:
      error = prepare_srq(command);
      break;
    case IB_USER_VERBS_CMD_CREATE_QP:
      error = prepare_qp(command);
      break;
    case IB_USER_VERBS_CMD_REG_MR:
      return prepare_mr(command);
    default:
      return 0;
  }
  return error != 0 ? error : place_doorbells(command->file);
}

static int keep_context(struct command* command) {
  int* const fds = command->exchange->fds;
  const uint64_t page = command->exchange->answer.value;
  command->file->doorbell_offset = page;
  if (page == PVRDMA_WIRE_NO_DOORBELL) return 0;
  if (!own_file_take(&command->file->doorbells, fds[1])) return EMFILE;
  fds[1] = -1;
  return 0;
}

// Takes descriptor 0 of the answer as the program's.
static int keep_channel(struct command* command, enum descriptor_kind kind) {
  struct exchange* const exchange = command->exchange;
  const uint32_t at = exchange->answer.fd_field;
  struct descriptor* const channel = descriptor_add(exchange->fds[0], kind);
  if (channel == NULL || at > sizeof exchange->response - sizeof(int)) return EMFILE;
  channel->number = (uint32_t)exchange->answer.value;
  memcpy(exchange->response + at, &exchange->fds[0], sizeof(int));
  exchange->fds[0] = -1;
  return 0;
}

static int keep_object(struct command* command, enum object_kind kind) {
  struct exchange* const exchange = command->exchange;
  uint32_t handle;  // the first word of each of these responses
  memcpy(&handle, exchange->response, sizeof handle);
  struct held* const held =
      held_add(command->file->number, kind, handle, command->runs.runs, command->runs.count);
  if (held == NULL) return ENOMEM;
  if (kind != kMr) {
    held_name(held, exchange->answer.user_handle);
    return 0;
  }
  const struct ib_uverbs_reg_mr* const body = BODY(command, struct ib_uverbs_reg_mr);
  held->start = body->start;
  held->length = body->length;
  return 0;
}

// DESTROY_CQ, DESTROY_QP and DESTROY_SRQ begin with the response's address and the handle.
static int forget_object(struct command* command, enum object_kind kind) {
  uint32_t handle;
  memcpy(&handle, command->body + sizeof(uint64_t), sizeof handle);
  struct held* const held = held_find(command->file->number, kind, handle);
  if (held == NULL) return 0;
  const uint32_t counts[2] = {kind == kCq ? held->completions_read : held->async_events_read,
                              held->async_events_read};
  memcpy(command->exchange->response, counts, kind == kCq ? sizeof counts : sizeof counts[0]);
  held_remove(held);
  return 0;
}

static int forget_mr(struct command* command) {
  const struct ib_uverbs_dereg_mr* const body = BODY(command, struct ib_uverbs_dereg_mr);
  struct held* const held = held_find(command->file->number, kMr, body->mr_handle);
  if (held == NULL) return 0;
  const uint64_t start = held->start;
  const uint64_t length = held->length;
  held_remove(held);
  unshare_range(start, length);
  return 0;
}

// Records what the library needs of a command that has succeeded.
static int conclude(struct command* command) {
  switch (command->number) {
    case IB_USER_VERBS_CMD_GET_CONTEXT: {
      const int error = keep_context(command);
      return error != 0 ? error : keep_channel(command, kAsyncChannel);
    }
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
      return keep_channel(command, kCompletionChannel);
    case IB_USER_VERBS_CMD_CREATE_CQ:
      return keep_object(command, kCq);
    case IB_USER_VERBS_CMD_CREATE_QP:
      return keep_object(command, kQp);
    case IB_USER_VERBS_CMD_CREATE_SRQ:
      return keep_object(command, kSrq);
    case IB_USER_VERBS_CMD_REG_MR:
      return keep_object(command, kMr);
    case IB_USER_VERBS_CMD_DESTROY_CQ:
      return forget_object(command, kCq);
    case IB_USER_VERBS_CMD_DESTROY_QP:
      return forget_object(command, kQp);
    case IB_USER_VERBS_CMD_DESTROY_SRQ:
      return forget_object(command, kSrq);
    case IB_USER_VERBS_CMD_DEREG_MR:
      return forget_mr(command);
    default:
      return 0;
  }
}

static void close_rest(const struct exchange* exchange) {
  for (int i = 0; i < PVRDMA_WIRE_MAX_FDS; ++i) {
    if (exchange->fds[i] >= 0) raw_close(exchange->fds[i]);
  }
}

// A registration that is refused leaves the program's memory as it was.
static int undo(const struct command* command, int error) {
  const struct ib_uverbs_reg_mr* const body = BODY(command, struct ib_uverbs_reg_mr);
  if (command->number == IB_USER_VERBS_CMD_REG_MR && body != NULL)
    unshare_range(body->start, body->length);
  return error;
}

// Like channel_ask(). The host's kernel may have to ask the network for a MAC address first. The stand-in
// decides when that has lasted too long; a fault of it cannot hold the program up for ever.
static int ask_until_resolved(void) {
  const struct timespec pause = {.tv_nsec = 1000000};
  int error = channel_ask(-1);
  for (int i = 0; i < kLooksMax && error == EAGAIN; ++i) {
    syscall(SYS_nanosleep, &pause, NULL);
    error = channel_ask(-1);
  }
  return error;
}

static int execute(struct descriptor* file, const void* bytes, size_t count) {
  struct ib_uverbs_cmd_hdr header;
  if (count < sizeof header || count > PVRDMA_WIRE_MAX_COMMAND_BYTES) return EINVAL;
  memcpy(&header, bytes, sizeof header);
  struct exchange* const exchange = channel_prepare(PVRDMA_WIRE_COMMAND);
  memcpy(exchange->command, bytes, count);
  struct command command = {.file = file,
                            .exchange = exchange,
                            .number = header.command,
                            .body = exchange->command + sizeof header,
                            .body_bytes = count - sizeof header,
                            .runs = {.runs = exchange->runs}};
  int error = prepare(&command);
  if (error != 0) return undo(&command, error);
  // Sharing memory may have used the exchange to add a window, but neither its command nor its runs.
  exchange->request = (struct pvrdma_wire_request){.type = PVRDMA_WIRE_COMMAND,
                                                   .file = file->number,
                                                   .command_bytes = (uint32_t)count,
                                                   .run_count = command.runs.count};
  error = ask_until_resolved();
  if (error != 0) return undo(&command, error);
  error = conclude(&command);
  if (error == 0 && exchange->answer.response_address != 0) {
    memcpy((void*)exchange->answer.response_address, exchange->response,  // NOLINT
           exchange->answer.response_bytes);
  }
  close_rest(exchange);
  return error;
}

ssize_t uverbs_write(struct descriptor* file, const void* bytes, size_t count) {
  lock();
  const int error = execute(file, bytes, count);
  unlock();
  if (error == 0) return (ssize_t)count;
  errno = error;
  return -1;
}

int uverbs_ring(int fd, uint64_t offset, uint64_t word) {
  lock();
  const struct descriptor* const file = descriptor_of(fd);
  int error = EBADF;
  if (file != NULL && file->kind == kUverbsFile) {
    struct exchange* const exchange = channel_prepare(PVRDMA_WIRE_DOORBELL);
    exchange->request.file = file->number;
    exchange->request.value0 = offset;
    exchange->request.value1 = word;
    error = channel_ask(-1);
  }
  unlock();
  return error;
}

bool uverbs_is_trapped(int fd) {
  lock();
  const struct descriptor* const file = descriptor_of(fd);
  const bool trapped =
      file != NULL && file->kind == kUverbsFile && file->doorbell_offset == PVRDMA_WIRE_NO_DOORBELL;
  unlock();
  return trapped;
}

int uverbs_resolve(const uint8_t gid[16], uint8_t mac[6]) {
  lock();
  struct exchange* const exchange = channel_prepare(PVRDMA_WIRE_RESOLVE_GID);
  memcpy(&exchange->request.value0, gid, sizeof(uint64_t));
  memcpy(&exchange->request.value1, gid + sizeof(uint64_t), sizeof(uint64_t));
  const int error = ask_until_resolved();
  for (int i = 0; i < 6; ++i) mac[i] = (uint8_t)(exchange->answer.value >> (8 * i));
  unlock();
  return error;
}
