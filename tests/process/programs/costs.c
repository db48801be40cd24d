// costs objects | hold | accept ADDRESS PORT | connect ADDRESS PORT
//
// objects: the median times of making a QP and of registering memory that was not registered before. hold: a context with a QP,
// until the program is killed. connect: the median time of a connection by rdma_cm, from rdma_connect() until it is established;
// accept: its server. Each time is a line "NAME MICROSECONDS".
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { kObjects = 201, kConnections = 51, kPage = 4096, kMany = 1 << 20 };

static double times_us[kObjects];

static void need(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void* a, const void* b) {
  const double first = *(const double*)a;
  const double second = *(const double*)b;
  return (first > second) - (first < second);
}

static void print_median(const char* name, int count) {
  qsort(times_us, (size_t)count, sizeof times_us[0], compare);
  printf("%s %.1f\n", name, times_us[count / 2]);
  fflush(stdout);
}

static struct ibv_pd* make_pd(void) {
  int count;
  struct ibv_device** const devices = ibv_get_device_list(&count);
  need(devices != NULL && count == 1, "one device");
  struct ibv_context* const context = ibv_open_device(devices[0]);
  need(context != NULL, "ibv_open_device");
  struct ibv_pd* const pd = ibv_alloc_pd(context);
  need(pd != NULL, "ibv_alloc_pd");
  return pd;
}

static struct ibv_qp_init_attr qp_of(struct ibv_cq* cq) {
  return (struct ibv_qp_init_attr){.send_cq = cq,
                                   .recv_cq = cq,
                                   .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
                                   .qp_type = IBV_QPT_RC};
}

static struct ibv_qp* make_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr wanted = qp_of(cq);
  struct ibv_qp* const qp = ibv_create_qp(pd, &wanted);
  need(qp != NULL, "ibv_create_qp");
  return qp;
}

static struct ibv_cq* make_cq(struct ibv_pd* pd) {
  struct ibv_cq* const cq = ibv_create_cq(pd->context, 32, NULL, NULL, 0);
  need(cq != NULL, "ibv_create_cq");
  return cq;
}

static void time_regions(struct ibv_pd* pd, size_t bytes, const char* name) {
  for (int i = 0; i < kObjects; ++i) {
    char* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(memory != MAP_FAILED, "mmap");
    memset(memory, 1, bytes);
    const double start = now_us();
    struct ibv_mr* const region = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    times_us[i] = now_us() - start;
    need(region != NULL && ibv_dereg_mr(region) == 0 && munmap(memory, bytes) == 0, "a region");
  }
  print_median(name, kObjects);
}

static void time_objects(void) {
  struct ibv_pd* const pd = make_pd();
  struct ibv_cq* const cq = make_cq(pd);
  for (int i = 0; i < kObjects; ++i) {
    const double start = now_us();
    struct ibv_qp* const qp = make_qp(pd, cq);
    times_us[i] = now_us() - start;
    need(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
  }
  print_median("create_qp", kObjects);
  time_regions(pd, kPage, "reg_mr_4k");
  time_regions(pd, kMany, "reg_mr_1m");
}

static void hold(void) {
  struct ibv_pd* const pd = make_pd();
  make_qp(pd, make_cq(pd));
  printf("holds 0\n");
  fflush(stdout);
  pause();
}

static struct rdma_cm_id* endpoint(const char* address, const char* port, int flags) {
  struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP};
  struct rdma_addrinfo* found;
  struct rdma_cm_id* id;
  struct ibv_qp_init_attr wanted = qp_of(NULL);
  need(rdma_getaddrinfo(address, port, &hints, &found) == 0, "rdma_getaddrinfo");
  need(rdma_create_ep(&id, found, NULL, &wanted) == 0, "rdma_create_ep");
  rdma_freeaddrinfo(found);
  return id;
}

static void accept_all(const char* address, const char* port) {
  struct rdma_cm_id* const listener = endpoint(address, port, RAI_PASSIVE);
  need(rdma_listen(listener, 1) == 0, "rdma_listen");
  printf("listens 0\n");
  fflush(stdout);
  for (int i = 0; i < kConnections; ++i) {
    struct rdma_cm_id* id;
    need(rdma_get_request(listener, &id) == 0 && rdma_accept(id, NULL) == 0, "a request");
    rdma_disconnect(id);
    rdma_destroy_ep(id);
  }
}

static void connect_all(const char* address, const char* port) {
  for (int i = 0; i < kConnections; ++i) {
    struct rdma_cm_id* const id = endpoint(address, port, 0);
    const double start = now_us();
    need(rdma_connect(id, NULL) == 0, "rdma_connect");
    times_us[i] = now_us() - start;
    rdma_disconnect(id);
    rdma_destroy_ep(id);
  }
  print_median("connect", kConnections);
}

int main(int count, char** arguments) {
  const char* const mode = count > 1 ? arguments[1] : "";
  if (count == 2 && strcmp(mode, "objects") == 0) {
    time_objects();
  } else if (count == 2 && strcmp(mode, "hold") == 0) {
    hold();
  } else if (count == 4 && strcmp(mode, "accept") == 0) {
    accept_all(arguments[2], arguments[3]);
  } else if (count == 4 && strcmp(mode, "connect") == 0) {
    connect_all(arguments[2], arguments[3]);
  } else {
    fprintf(stderr, "costs objects | hold | accept ADDRESS PORT | connect ADDRESS PORT\n");
    return 2;
  }
  return 0;
}
