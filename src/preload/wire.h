// wire.h: what a program's preload library and a stand-in say to each other. C11 and C++20.
//
// The socket is a UNIX socket of type SOCK_SEQPACKET at PVRDMA_WIRE_SOCKET_NAME in the stand-in's folder. A
// process has one connection, whatever the number of files that it opens. The process sends a request
// and waits for its answer; the stand-in sends nothing unasked. Each request and each answer is one datagram.
// Numbers have the host's byte order. Descriptors travel with the datagram as SCM_RIGHTS.
//
//     request:  struct pvrdma_wire_request, `command_bytes` of command padded with zeros to a multiple of 8,
//               `run_count` times struct pvrdma_wire_run
//     answer:   struct pvrdma_wire_answer, `response_bytes` of response
//
// An answer's `error` is 0 or a positive errno value. With an error nothing has happened, nothing follows the
// header and no descriptor comes along. The stand-in ends a connection that breaks the framing; it answers
// every other mistake:
//
//     EPROTONOSUPPORT  HELLO: the versions differ; `value` of the answer is the stand-in's version
//     EBADF            `file` is not an open file of this process
//     EINVAL           a first request that is not HELLO, a second HELLO, an unknown type, a command of bad
//                      length, a value out of range, or a handle that is not the file's
//     EFAULT           runs that leave their window, or do not add up to the buffers that the command names
//     EOPNOTSUPP       a uverbs command that the stand-in does not know
//     ENOSYS           an rdma_cm command that the stand-in does not know
//     EMFILE           the process has its maximum of files or windows, the file its maximum of channels, or
//                      the stand-in no free descriptor
//     ENOMEM           the process has its maximum of ids, or the device's or the adapter's budget is used up
//     EIO              the daemon or the adapter is gone; it stays so
//
// Channels of completion and asynchronous events are SOCK_SEQPACKET sockets, too. The stand-in writes one
// datagram per event: struct ib_uverbs_comp_event_desc (8 bytes) or struct ib_uverbs_async_event_desc (16
// bytes) of <rdma/ib_user_verbs.h>. The program has the read end, so that poll() and O_NONBLOCK work.
#pragma once

#ifdef __cplusplus
#include <cstdint>
#else
#include <stdint.h>
#endif

#define PVRDMA_WIRE_SOCKET_NAME "standin.sock"
#define PVRDMA_WIRE_TREE_NAME "tree"  // the folder with sys/ and dev/, beside the socket

enum {
  PVRDMA_WIRE_MAGIC = 0x50565257,  // in HELLO
  PVRDMA_WIRE_VERSION = 3,

  PVRDMA_WIRE_MAX_COMMAND_BYTES = 4096,
  PVRDMA_WIRE_MAX_RESPONSE_BYTES = 4096,
  PVRDMA_WIRE_MAX_RUNS = 8192,
  PVRDMA_WIRE_MAX_FILES = 64,       // uverbs files that one process has open
  PVRDMA_WIRE_MAX_CM_FILES = 1024,  // rdma_cm files that one process has open
  PVRDMA_WIRE_MAX_WINDOWS = 40,     // memory windows of one process
  PVRDMA_WIRE_MAX_FDS = 2,          // descriptors of one datagram
  PVRDMA_WIRE_PAGE_BYTES = 4096,
};

// `type` of a request. What a request uses of the header is listed with it; the rest is zero.
enum pvrdma_wire_type {
  // The first request of a connection, and only that. value0: PVRDMA_WIRE_MAGIC, value1: PVRDMA_WIRE_VERSION.
  // The layout of this request and of its answer never changes.
  PVRDMA_WIRE_HELLO = 1,

  // The process opened the uverbs file. Answer: file = the number to use in later requests.
  PVRDMA_WIRE_OPEN_FILE = 2,

  // The process closed `file`. All of the file's objects are destroyed before the answer.
  PVRDMA_WIRE_CLOSE_FILE = 3,

  // Adds a memory window. One descriptor, open for reading and writing: a file on tmpfs or hugetlbfs, memory
  // files included, not sealed against writing. The window is [value0, value0 + value1) of it, both multiples
  // of 4096, inside the file's pages: its last page counts as a whole. Answer: value = the window's number.
  // Windows last as long as the connection. If
  // the file gets smaller and the device needs what is gone, the adapter stops, for all of its processes. So
  // a stand-in that serves several users takes only files sealed with F_SEAL_SHRINK. EINVAL: no such file, or
  // no such part of it. EMFILE: PVRDMA_WIRE_MAX_WINDOWS. ENOMEM: the adapter's budget.
  PVRDMA_WIRE_ADD_WINDOW = 4,

  // The process wrote a command into `file`: exactly the bytes that it wrote. Runs: see pvrdma_wire_run.
  // CREATE_CQ carries the number of a channel (`value` of CREATE_COMP_CHANNEL's answer) where the program
  // wrote the descriptor's number. MODIFY_QP with an address answers EAGAIN while the host's kernel asks the
  // network for the next hop's MAC; the library waits a moment, and asks again. That ends soon.
  PVRDMA_WIRE_COMMAND = 5,

  // Writes the word value1 at byte value0 of the file's doorbell page, as the provider would: value0 is 0
  // (QP), 4 (CQ) or 8 (SRQ); value1 is the object's handle and the operation's bits. When the answer comes,
  // the device has taken it. The library sends each ARM of a CQ, and each post of a context whose page is
  // PVRDMA_WIRE_NO_DOORBELL. It does not send POLL, which the device need not know.
  PVRDMA_WIRE_DOORBELL = 6,

  // Resolves the MAC address of the GID whose bytes 0-7 are value0 and 8-15 value1, as they lie in memory.
  // Answer: value = the MAC's 6 bytes, the first in the lowest 8 bits. EAGAIN: as for MODIFY_QP.
  PVRDMA_WIRE_RESOLVE_GID = 7,

  // The process opened the rdma_cm file. Answer: file = the number to use in later requests, apart from those
  // of uverbs files. One descriptor: it is readable while events wait, and nothing is taken from it.
  PVRDMA_WIRE_OPEN_CM_FILE = 8,

  // The process closed rdma_cm file `file`. All of its connections are ended before the answer.
  PVRDMA_WIRE_CLOSE_CM_FILE = 9,

  // The process wrote a command into rdma_cm file `file`: exactly the bytes that it wrote. SET_OPTION is
  // followed by the option's value. MIGRATE_ID carries the number of an rdma_cm file where the program wrote
  // the descriptor's number. GET_EVENT answers EAGAIN if no event waits; the library waits, and asks again.
  PVRDMA_WIRE_CM_COMMAND = 10,
};

struct pvrdma_wire_request {
  uint32_t type;  // enum pvrdma_wire_type
  uint32_t file;  // from OPEN_FILE or OPEN_CM_FILE
  uint64_t value0;
  uint64_t value1;
  uint32_t command_bytes;  // at most PVRDMA_WIRE_MAX_COMMAND_BYTES
  uint32_t run_count;      // at most PVRDMA_WIRE_MAX_RUNS
};

// Consecutive pages of a window. The runs of a command, in order, are the pages of:
//   CREATE_CQ   buf_addr, buf_size bytes
//   CREATE_SRQ  buf_addr, buf_size bytes
//   CREATE_QP   sbuf_addr, sbuf_size bytes, then rbuf_addr, rbuf_size bytes (not with an SRQ)
//   REG_MR      every page that [start, start + length) touches
// The provider's buffers are page-aligned; their sizes are rounded up to whole pages. Other commands have no
// runs.
struct pvrdma_wire_run {
  uint64_t offset;  // in bytes from the window's start; a multiple of 4096
  uint32_t pages;   // at least 1
  uint32_t window;  // from ADD_WINDOW
};

enum {
  PVRDMA_WIRE_NO_FIELD = 0xffffffffu,
};
#define PVRDMA_WIRE_NO_DOORBELL UINT64_MAX

// Descriptors of an answer:
//   GET_CONTEXT          0: the channel of asynchronous events. 1 (only if `value` is not
//                        PVRDMA_WIRE_NO_DOORBELL): the file of doorbell pages; the context's page is the 4096
//                        bytes at offset `value`
//   CREATE_COMP_CHANNEL  0: the channel of completion events; `value` is its number
// The library stores the process's number of descriptor 0 as 32 bits at byte `fd_field` of the response.
//
// `user_handle` is what the program calls the object in events. The library counts the events that the
// program has read by it, and after DESTROY_CQ, DESTROY_QP and DESTROY_SRQ it writes the counts into the
// response: comp_events_reported (byte 0) and async_events_reported (byte 4) of a CQ, events_reported (byte
// 0) of the others. The stand-in leaves zeros there, and has put every event of the object into the channels
// before it answers.
struct pvrdma_wire_answer {
  int32_t error;              // 0 or a positive errno value
  uint32_t file;              // OPEN_FILE, OPEN_CM_FILE
  uint64_t value;             // depends on the request
  uint64_t response_address;  // COMMAND, CM_COMMAND: where the command wants its response; 0: nowhere
  uint64_t user_handle;       // of the object that the command made or destroyed; else 0
  uint32_t response_bytes;    // what follows; never more than the command has room for
  uint32_t fd_field;          // COMMAND; PVRDMA_WIRE_NO_FIELD: none
};

#ifdef __cplusplus
static_assert(sizeof(pvrdma_wire_request) == 32 && sizeof(pvrdma_wire_run) == 16 &&
              sizeof(pvrdma_wire_answer) == 40);
#else
_Static_assert(sizeof(struct pvrdma_wire_request) == 32 && sizeof(struct pvrdma_wire_run) == 16 &&
                   sizeof(struct pvrdma_wire_answer) == 40,
               "the protocol's layout");
#endif
