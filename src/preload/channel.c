#include "preload/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "preload/fork.h"
#include "preload/own_file.h"
#include "preload/raw.h"
#include "preload/tree.h"

enum {
  kAnswerPatienceS = 30,  // a stand-in that does not answer for so long is treated as gone
  kSendBufferBytes = 1 << 20,
};

static struct own_file connection = {.fd = -1};
static bool gone;
static struct exchange exchange;

struct exchange* channel_prepare(uint32_t type) {
  exchange.request = (struct pvrdma_wire_request){.type = type};
  return &exchange;
}

static int give_up(void) {
  if (!gone)
    log_line(true, "the stand-in at %s is gone: the adapter cannot be used any more", standin_folder());
  gone = true;
  return EIO;
}

static bool send_request(int fd) {
  const size_t padded = ((size_t)exchange.request.command_bytes + 7) / 8 * 8;
  memset(exchange.command + exchange.request.command_bytes, 0, padded - exchange.request.command_bytes);
  struct iovec parts[] = {{&exchange.request, sizeof exchange.request},
                          {exchange.command, padded},
                          {exchange.runs, exchange.request.run_count * sizeof exchange.runs[0]}};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
  if (fd >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof control.bytes;
    control.header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
  }
  ssize_t sent;
  do {
    sent = syscall(SYS_sendmsg, connection.fd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

// The kernel puts all descriptors of a message into one header.
static void take_fds(struct msghdr* message) {
  const struct cmsghdr* const part = CMSG_FIRSTHDR(message);
  if (part == NULL || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return;
  const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count && i < PVRDMA_WIRE_MAX_FDS; ++i) {
    memcpy(&exchange.fds[i], CMSG_DATA(part) + i * sizeof(int), sizeof(int));
  }
}

static bool receive_answer(void) {
  struct iovec parts[] = {{&exchange.answer, sizeof exchange.answer},
                          {exchange.response, sizeof exchange.response}};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(PVRDMA_WIRE_MAX_FDS * sizeof(int))];
  } control;
  struct msghdr message = {
      .msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control.bytes};
  for (int i = 0; i < PVRDMA_WIRE_MAX_FDS; ++i) exchange.fds[i] = -1;
  ssize_t got;
  do {
    got = syscall(SYS_recvmsg, connection.fd, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < (ssize_t)sizeof exchange.answer) return false;
  take_fds(&message);
  return (size_t)got >= sizeof exchange.answer + exchange.answer.response_bytes;
}

int channel_ask(int fd) {
  if (connection.fd < 0 || gone) return EIO;
  if (!own_file_is_open(&connection) || !send_request(fd) || !receive_answer()) return give_up();
  return exchange.answer.error;
}

static int connect_to_standin(const char* folder) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(folder) + sizeof "/" PVRDMA_WIRE_SOCKET_NAME > sizeof address.sun_path) return ENAMETOOLONG;
  strcpy(address.sun_path, folder);
  strcat(address.sun_path, "/" PVRDMA_WIRE_SOCKET_NAME);
  const int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0 || !own_file_take(&connection, fd)) return errno;
  const int bytes = kSendBufferBytes;
  syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  const struct timeval patience = {.tv_sec = kAnswerPatienceS};
  syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  return syscall(SYS_connect, fd, &address, sizeof address) == 0 ? 0 : errno;
}

static int say_hello(void) {
  struct exchange* const hello = channel_prepare(PVRDMA_WIRE_HELLO);
  hello->request.value0 = PVRDMA_WIRE_MAGIC;
  hello->request.value1 = PVRDMA_WIRE_VERSION;
  const int error = channel_ask(-1);
  if (error == EPROTONOSUPPORT) {
    log_line(true,
             "this library speaks version %d and the stand-in version %llu: end it with pvrdma-run --stop",
             PVRDMA_WIRE_VERSION, (unsigned long long)hello->answer.value);
    return ENODEV;
  }
  return error;
}

int channel_open(void) {
  if (connection.fd >= 0) return gone ? EIO : 0;
  const char* const folder = standin_folder();
  if (folder == NULL) return ENODEV;
  int error = connect_to_standin(folder);
  if (error == 0) error = say_hello();
  if (error == 0) {
    watch_forks();
    return 0;
  }
  log_line(false, "the stand-in at %s does not answer: %s", folder, strerror(error));
  channel_forget();
  return error;
}

void channel_forget(void) {
  own_file_close(&connection);
  gone = false;
}
