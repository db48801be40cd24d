// loopback [PATH | memfd | uneven | huge | anonymous | cut]: writes from registered memory of the heap to registered memory of
// the stack through two QPs of one device, and back, and compares. Instead of the heap it takes memory that it shares by a
// file: one of this path, which it closes each time, or a memory file, of huge pages or not; "uneven": the file ends within the
// memory's last page; "cut": the file loses its pages before the device uses them, and the program ends; "anonymous": without a
// file. Also an agent of a Java VM, which does it when the VM starts and when it ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 256 * 1024, kRounds = 20, kFileStep = 2 << 20 };

static const char* source;  // the argument
static int file = -1;

static void need(int good, const char* what) {
  if (good) return;
  perror(what);
  _Exit(1);
}

static int is_source(const char* name) { return source != NULL && strcmp(source, name) == 0; }

// The file grows each time, so the device must be told of it again.
static char* take(int round) {
  if (source == NULL) return malloc(kBytes);
  if (is_source("anonymous")) return mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (source[0] == '/') file = open(source, O_RDWR | O_CREAT, 0600);
  if (file < 0) file = memfd_create("program", is_source("huge") ? MFD_HUGETLB : 0);
  const off_t size = is_source("uneven") ? (off_t)round * kFileStep + kBytes - 100 : (off_t)(round + 1) * kFileStep;
  need(file >= 0 && ftruncate(file, size) == 0, "the file");
  char* const taken = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)round * kFileStep);
  if (taken == MAP_FAILED && is_source("huge")) {
    printf("there are no huge pages\n");
    exit(0);
  }
  need(taken != MAP_FAILED, "mmap");
  if (source[0] == '/') need(close(file) == 0, "close");
  return taken;
}

static void give(char* taken) {
  if (source == NULL) {
    free(taken);
  } else {
    need(munmap(taken, is_source("huge") ? kFileStep : kBytes) == 0, "munmap");
  }
}

static struct ibv_qp* make_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr wanted = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_RC};
  struct ibv_qp* const qp = ibv_create_qp(pd, &wanted);
  need(qp != NULL, "ibv_create_qp");
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  need(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
  return qp;
}

static void connect_qp(struct ibv_qp* qp, uint32_t peer, const union ibv_gid* gid) {
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = IBV_MTU_1024,
                            .dest_qp_num = peer,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 12,
                            .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 1}}};
  need(ibv_modify_qp(qp, &rtr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  need(ibv_modify_qp(qp, &rts,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

static void post_write(struct ibv_qp* qp, const struct ibv_mr* from, const struct ibv_mr* to) {
  struct ibv_sge piece = {.addr = (uintptr_t)from->addr, .length = kBytes, .lkey = from->lkey};
  struct ibv_send_wr work = {.sg_list = &piece,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = (uintptr_t)to->addr, .rkey = to->rkey}};
  struct ibv_send_wr* bad;
  need(ibv_post_send(qp, &work, &bad) == 0, "ibv_post_send");
}

static void write_to(struct ibv_qp* qp, const struct ibv_mr* from, const struct ibv_mr* to) {
  post_write(qp, from, to);
  struct ibv_wc done;
  int count;
  while ((count = ibv_poll_cq(qp->send_cq, 1, &done)) == 0) {
  }
  need(count == 1 && done.status == IBV_WC_SUCCESS, "completion");
}

static void exchange(void) {
  int count;
  struct ibv_device** const devices = ibv_get_device_list(&count);
  need(devices != NULL && count == 1, "one device");
  struct ibv_context* const context = ibv_open_device(devices[0]);
  need(context != NULL, "ibv_open_device");
  struct ibv_pd* const pd = ibv_alloc_pd(context);
  struct ibv_cq* const cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  need(pd != NULL && cq != NULL, "PD and CQ");
  union ibv_gid gid;
  need(ibv_query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid");
  struct ibv_qp* const first = make_qp(pd, cq);
  struct ibv_qp* const second = make_qp(pd, cq);
  connect_qp(first, second->qp_num, &gid);
  connect_qp(second, first->qp_num, &gid);
  char on_stack[kBytes];
  for (int round = 0; round < kRounds; round++) {
    char* const on_heap = take(round);
    memset(on_heap, 'a' + round, kBytes);
    memset(on_stack, 0, kBytes);
    struct ibv_mr* const heap = ibv_reg_mr(pd, on_heap, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_mr* const stack = ibv_reg_mr(pd, on_stack, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    need(heap != NULL && stack != NULL, "ibv_reg_mr");
    if (is_source("cut")) {
      need(ftruncate(file, 0) == 0, "ftruncate");
      post_write(first, heap, stack);
      sleep(1);
      _exit(0);
    }
    write_to(first, heap, stack);
    need(memcmp(on_heap, on_stack, kBytes) == 0, "the stack's bytes");
    memset(on_stack, 'A' + round, kBytes);
    write_to(second, stack, heap);
    need(memcmp(on_heap, on_stack, kBytes) == 0, "the heap's bytes");
    need(ibv_dereg_mr(heap) == 0 && ibv_dereg_mr(stack) == 0, "ibv_dereg_mr");
    need(on_heap[round] == 'A' + round && on_stack[round] == 'A' + round, "bytes afterwards");
    give(on_heap);
  }
  need(ibv_destroy_qp(first) == 0 && ibv_destroy_qp(second) == 0, "ibv_destroy_qp");
  need(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "the end");
  ibv_free_device_list(devices);
  printf("passed\n");
  fflush(stdout);
}

int main(int count, char** arguments) {
  if (count > 1) source = arguments[1];
  exchange();
  return 0;
}

int Agent_OnLoad(void* vm, char* options, void* reserved) {
  (void)vm, (void)options, (void)reserved;
  exchange();
  return 0;
}

// The VM's own threads run meanwhile: compilers, garbage collectors.
void Agent_OnUnload(void* vm) {
  (void)vm;
  exchange();
}
