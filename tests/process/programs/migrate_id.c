// migrate_id CASE ADDRESS PORT: ids of rdma_cm change their event channel (rdma_migrate_id). ADDRESS is the node's own.
//
// accepted    the id of a connection request goes to a channel on which a thread waits
// connecting  an id goes to another channel between its request and the answer; that channel does not block
// queued      a listening id goes to another channel while events of it and of another id wait
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPatienceMs = 30000 };  // a hang guard

static struct sockaddr_in address;

#define NEED(condition) need(condition, #condition, __LINE__)

static void need(int good, const char* what, int line) {
  if (good) return;
  fprintf(stderr, "line %d: %s: %s\n", line, what, strerror(errno));
  exit(1);
}

static struct rdma_event_channel* make_channel(void) {
  struct rdma_event_channel* const channel = rdma_create_event_channel();
  NEED(channel != NULL);
  return channel;
}

static int is_readable(const struct rdma_event_channel* channel, int timeout_ms) {
  struct pollfd one = {.fd = channel->fd, .events = POLLIN};
  return poll(&one, 1, timeout_ms) == 1;
}

// Takes the next event, which must be of this type. The first letter of private data, if there is some, goes to `letter`.
static struct rdma_cm_id* take_with_letter(struct rdma_event_channel* channel, enum rdma_cm_event_type type, char* letter) {
  struct rdma_cm_event* event;
  NEED(rdma_get_cm_event(channel, &event) == 0);
  if (event->event != type)
    fprintf(stderr, "%s instead of %s\n", rdma_event_str(event->event), rdma_event_str(type));
  NEED(event->event == type);
  struct rdma_cm_id* const id = event->id;
  if (letter != NULL && event->param.conn.private_data != NULL) memcpy(letter, event->param.conn.private_data, 1);
  NEED(rdma_ack_cm_event(event) == 0);
  return id;
}

static struct rdma_cm_id* take(struct rdma_event_channel* channel, enum rdma_cm_event_type type) {
  return take_with_letter(channel, type, NULL);
}

static struct rdma_cm_id* make_id(struct rdma_event_channel* channel) {
  struct rdma_cm_id* id;
  NEED(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  return id;
}

static struct rdma_cm_id* make_listener(struct rdma_event_channel* channel) {
  struct rdma_cm_id* const id = make_id(channel);
  NEED(rdma_bind_addr(id, (struct sockaddr*)&address) == 0 && rdma_listen(id, 4) == 0);
  return id;
}

static void make_qp(struct rdma_cm_id* id) {
  struct ibv_qp_init_attr wanted = {
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}, .qp_type = IBV_QPT_RC};
  NEED(rdma_create_qp(id, NULL, &wanted) == 0);
}

// An id that has asked for a connection, with a letter.
static struct rdma_cm_id* connect_from(struct rdma_event_channel* channel, const char* letter) {
  struct rdma_cm_id* const id = make_id(channel);
  NEED(rdma_resolve_addr(id, NULL, (struct sockaddr*)&address, 1000) == 0);
  NEED(take(channel, RDMA_CM_EVENT_ADDR_RESOLVED) == id && rdma_resolve_route(id, 1000) == 0);
  NEED(take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
  make_qp(id);
  struct rdma_conn_param param = {.private_data = letter, .private_data_len = 1, .retry_count = 7};
  NEED(rdma_connect(id, &param) == 0);
  return id;
}

static void accept_it(struct rdma_cm_id* id) {
  make_qp(id);
  struct rdma_conn_param param = {.rnr_retry_count = 7};
  NEED(rdma_accept(id, &param) == 0);
}

static void destroy(struct rdma_cm_id* id) {
  if (id->qp != NULL) rdma_destroy_qp(id);
  NEED(rdma_destroy_id(id) == 0);
}

// A thread that takes one event.
struct waiter {
  pthread_t thread;
  pid_t tid;
  struct rdma_event_channel* channel;
  enum rdma_cm_event_type type;
  struct rdma_cm_id* id;
  char letter;
};

static void* wait_for_event(void* argument) {
  struct waiter* const waiter = argument;
  __atomic_store_n(&waiter->tid, gettid(), __ATOMIC_RELEASE);
  waiter->id = take_with_letter(waiter->channel, waiter->type, &waiter->letter);
  return NULL;
}

// The thread sleeps in the system call in which a file without events keeps it.
static int is_asleep(pid_t tid) {
  char path[64];
  char text[16] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
  FILE* const file = fopen(path, "r");
  NEED(file != NULL);
  if (fgets(text, sizeof text, file) == NULL) text[0] = 0;
  fclose(file);
  return atoi(text) == SYS_recvfrom;
}

static void start_waiting(struct waiter* waiter) {
  NEED(pthread_create(&waiter->thread, NULL, wait_for_event, waiter) == 0);
  while (__atomic_load_n(&waiter->tid, __ATOMIC_ACQUIRE) == 0 || !is_asleep(waiter->tid)) usleep(1000);
}

static void accepted(void) {
  struct rdma_event_channel* const requests = make_channel();
  struct rdma_event_channel* const clients = make_channel();
  struct rdma_event_channel* const accepted = make_channel();
  struct rdma_cm_id* const listener = make_listener(requests);
  struct rdma_cm_id* const client = connect_from(clients, "a");
  struct rdma_cm_id* const child = take(requests, RDMA_CM_EVENT_CONNECT_REQUEST);
  struct waiter waiter = {.channel = accepted, .type = RDMA_CM_EVENT_ESTABLISHED};
  start_waiting(&waiter);
  NEED(rdma_migrate_id(child, accepted) == 0 && child->channel == accepted);
  accept_it(child);
  NEED(take(clients, RDMA_CM_EVENT_ESTABLISHED) == client);
  NEED(pthread_join(waiter.thread, NULL) == 0 && waiter.id == child);
  NEED(rdma_disconnect(client) == 0);
  NEED(take(accepted, RDMA_CM_EVENT_DISCONNECTED) == child);
  NEED(take(clients, RDMA_CM_EVENT_DISCONNECTED) == client);
  NEED(!is_readable(requests, 0));
  destroy(child);
  destroy(client);
  destroy(listener);
}

static void connecting(void) {
  struct rdma_event_channel* const server = make_channel();
  struct rdma_event_channel* const before = make_channel();
  struct rdma_event_channel* const after = make_channel();
  NEED(fcntl(after->fd, F_SETFL, O_NONBLOCK) == 0);
  struct rdma_cm_id* const listener = make_listener(server);
  struct rdma_cm_id* const client = connect_from(before, "a");
  struct rdma_cm_id* const child = take(server, RDMA_CM_EVENT_CONNECT_REQUEST);
  NEED(rdma_migrate_id(client, after) == 0);
  struct rdma_cm_event* none;
  NEED(!is_readable(after, 0) && rdma_get_cm_event(after, &none) == -1 && errno == EAGAIN);
  accept_it(child);
  NEED(is_readable(after, kPatienceMs));
  NEED(take(after, RDMA_CM_EVENT_ESTABLISHED) == client && take(server, RDMA_CM_EVENT_ESTABLISHED) == child);
  NEED(!is_readable(after, 0));
  NEED(rdma_disconnect(child) == 0);
  NEED(is_readable(after, kPatienceMs));
  NEED(take(after, RDMA_CM_EVENT_DISCONNECTED) == client);
  NEED(!is_readable(before, 0));
  destroy(client);
  destroy(child);
  destroy(listener);
}

static void queued(void) {
  struct rdma_event_channel* const before = make_channel();
  struct rdma_event_channel* const after = make_channel();
  struct rdma_event_channel* const clients = make_channel();
  struct rdma_cm_id* const listener = make_listener(before);
  struct rdma_cm_id* const first = connect_from(clients, "a");
  NEED(is_readable(before, kPatienceMs));
  struct rdma_cm_id* const other = make_id(before);
  NEED(rdma_resolve_addr(other, NULL, (struct sockaddr*)&address, 1000) == 0);
  struct rdma_cm_id* const second = connect_from(clients, "b");
  struct waiter waiter = {.channel = after, .type = RDMA_CM_EVENT_CONNECT_REQUEST};
  start_waiting(&waiter);
  NEED(rdma_migrate_id(listener, after) == 0);
  NEED(pthread_join(waiter.thread, NULL) == 0 && waiter.letter == 'a');
  char letter;
  struct rdma_cm_id* const child = take_with_letter(after, RDMA_CM_EVENT_CONNECT_REQUEST, &letter);
  NEED(letter == 'b' && child->channel == after && waiter.id->channel == after && !is_readable(after, 0));
  NEED(is_readable(before, 0) && take(before, RDMA_CM_EVENT_ADDR_RESOLVED) == other && !is_readable(before, 0));
  accept_it(child);
  NEED(take(clients, RDMA_CM_EVENT_ESTABLISHED) == second && take(after, RDMA_CM_EVENT_ESTABLISHED) == child);
  destroy(other);
  destroy(waiter.id);
  destroy(child);
  destroy(listener);
  destroy(first);
  destroy(second);
}

int main(int count, char** arguments) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kCases[] = {{"accepted", accepted}, {"connecting", connecting}, {"queued", queued}};
  NEED(count == 4);
  address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[3]))};
  NEED(inet_pton(AF_INET, arguments[2], &address.sin_addr) == 1);
  for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    if (strcmp(arguments[1], kCases[i].name) != 0) continue;
    kCases[i].run();
    printf("passed\n");
    return 0;
  }
  return 2;
}
