// bad_requests DEVICE GID_INDEX MODE: makes an application's mistakes with the stock provider and prints how the
// device responds. Both ends are queue pairs of this process. It prints one line for each mistake, which the test
// compares.
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBufferBytes = 64 << 10, kReceiveOffset = 32 << 10, kGrhBytes = 40, kQkey = 0x11111111, kDepth = 16 };

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_mr* mr;
static struct ibv_port_attr port;
static union ibv_gid gid;
static int gid_index;
static char* buffer;

static void need(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

static void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  putchar('\n');
  fflush(stdout);
}

// The next completion, or NULL if none comes within half a second.
static const struct ibv_wc* next_completion(struct ibv_cq* cq) {
  static struct ibv_wc completion;
  for (int tenths = 0; tenths < 50; tenths++) {
    if (ibv_poll_cq(cq, 1, &completion) == 1) return &completion;
    nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
  }
  return NULL;
}

static void say_completion(const char* what, struct ibv_cq* cq) {
  const struct ibv_wc* completion = next_completion(cq);
  if (completion == NULL)
    say("%s: none", what);
  else
    say("%s: %s", what, ibv_wc_status_str(completion->status));
}

static void say_event(const char* what) {
  struct pollfd event_fd = {.fd = context->async_fd, .events = POLLIN};
  if (poll(&event_fd, 1, 3000) != 1) {
    say("%s: none", what);
    return;
  }
  struct ibv_async_event event;
  need(ibv_get_async_event(context, &event) == 0, "ibv_get_async_event");
  say("%s: %s", what, ibv_event_type_str(event.event_type));
  ibv_ack_async_event(&event);
}

static struct ibv_qp* create_qp(enum ibv_qp_type type, struct ibv_cq* cq, struct ibv_srq* srq) {
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
                                  .cap = {.max_send_wr = kDepth, .max_recv_wr = kDepth, .max_send_sge = 1,
                                          .max_recv_sge = 1}};
  return ibv_create_qp(pd, &init);
}

static void make_ud_ready(struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = kQkey};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0, "UD INIT");
  attr.qp_state = IBV_QPS_RTR;
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "UD RTR");
  attr.qp_state = IBV_QPS_RTS;
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "UD RTS");
}

static void make_rc_ready(struct ibv_qp* qp, uint32_t peer) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1,
      .min_rnr_timer = 1,
      .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}}};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = 1};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
}

static struct ibv_sge piece(uint64_t offset, uint32_t bytes, uint32_t lkey) {
  return (struct ibv_sge){.addr = (uintptr_t)buffer + offset, .length = bytes, .lkey = lkey};
}

static int post_receive(struct ibv_qp* qp, uint32_t bytes, uint32_t lkey) {
  struct ibv_sge sge = piece(kReceiveOffset, bytes, lkey);
  struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad;
  return ibv_post_recv(qp, &request, &bad);
}

static int post(struct ibv_qp* qp, struct ibv_send_wr request, uint32_t bytes, uint32_t lkey) {
  struct ibv_sge sge = piece(0, bytes, lkey);
  struct ibv_send_wr* bad;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  return ibv_post_send(qp, &request, &bad);
}

static void datagrams(void) {
  struct ibv_cq* send_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_cq* receive_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp* from = create_qp(IBV_QPT_UD, send_cq, NULL);
  struct ibv_qp* to = create_qp(IBV_QPT_UD, receive_cq, NULL);
  need(from != NULL && to != NULL, "UD queue pairs");
  make_ud_ready(from);
  make_ud_ready(to);
  struct ibv_ah_attr address = {.is_global = 1, .port_num = 1,
                                .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}};
  struct ibv_ah* good = ibv_create_ah(pd, &address);
  need(good != NULL, "address handle");
  address.grh.sgid_index = 31;
  struct ibv_ah* unknown_gid = ibv_create_ah(pd, &address);
  struct ibv_send_wr send = {.opcode = IBV_WR_SEND,
                             .wr.ud = {.ah = good, .remote_qpn = to->qp_num, .remote_qkey = kQkey}};
  for (int i = 0; i < 4; i++) need(post_receive(to, 4096 + kGrhBytes, mr->lkey) == 0, "receive");

  need(post(from, send, 512, mr->lkey) == 0, "send");
  say_completion("datagram: sender", send_cq);
  say_completion("datagram: receiver", receive_cq);

  send.wr.ud.remote_qkey = kQkey + 1;
  need(post(from, send, 512, mr->lkey) == 0, "send");
  say_completion("wrong Q_Key: sender", send_cq);
  say_completion("wrong Q_Key: receiver", receive_cq);
  send.wr.ud.remote_qkey = kQkey;

  send.wr.ud.remote_qpn = 0xfffff0;
  need(post(from, send, 512, mr->lkey) == 0, "send");
  say_completion("unknown queue pair: sender", send_cq);
  send.wr.ud.remote_qpn = to->qp_num;

  if (unknown_gid == NULL) {
    say("unknown GID index: refused by the provider");
  } else {
    send.wr.ud.ah = unknown_gid;
    need(post(from, send, 512, mr->lkey) == 0, "send");
    say_completion("unknown GID index: sender", send_cq);
    say_completion("unknown GID index: receiver", receive_cq);
    send.wr.ud.ah = good;
  }

  struct ibv_qp* again = create_qp(IBV_QPT_UD, send_cq, NULL);  // the one above may be in error
  make_ud_ready(again);
  need(post(again, send, 16 << 10, mr->lkey) == 0, "send");
  say_completion("longer than the MTU: sender", send_cq);
  say_completion("longer than the MTU: receiver", receive_cq);

  struct ibv_qp* last = create_qp(IBV_QPT_UD, send_cq, NULL);
  make_ud_ready(last);
  struct ibv_send_wr write = send;
  write.opcode = IBV_WR_RDMA_WRITE;
  need(post(last, write, 512, mr->lkey) == 0, "write");
  say_completion("RDMA write on UD: sender", send_cq);
}

// Two connected queue pairs, requester first.
static void connect_pair(struct ibv_qp* pair[2], struct ibv_cq* requester_cq, struct ibv_cq* responder_cq) {
  pair[0] = create_qp(IBV_QPT_RC, requester_cq, NULL);
  pair[1] = create_qp(IBV_QPT_RC, responder_cq, NULL);
  need(pair[0] != NULL && pair[1] != NULL, "RC queue pairs");
  make_rc_ready(pair[0], pair[1]->qp_num);
  make_rc_ready(pair[1], pair[0]->qp_num);
}

static void connected(void) {
  struct ibv_cq* cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_cq* peer_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_mr* stale = ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  const uint32_t stale_lkey = stale->lkey;
  const uint32_t stale_rkey = stale->rkey;
  need(ibv_dereg_mr(stale) == 0, "ibv_dereg_mr");
  struct ibv_pd* other_pd = ibv_alloc_pd(context);
  struct ibv_mr* foreign = ibv_reg_mr(other_pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_mr* read_only = ibv_reg_mr(pd, buffer, 4096, 0);
  const struct ibv_send_wr good = {.opcode = IBV_WR_RDMA_WRITE,
                                   .wr.rdma = {.remote_addr = (uintptr_t)buffer + 1024, .rkey = mr->rkey}};
  const struct {
    const char* what;
    uint32_t lkey;
    uint32_t rkey;
    uint64_t remote_addr;
  } writes[] = {
      {"write", mr->lkey, mr->rkey, (uintptr_t)buffer + 1024},
      {"stale local key", stale_lkey, mr->rkey, (uintptr_t)buffer + 1024},
      {"stale remote key", mr->lkey, stale_rkey, (uintptr_t)buffer + 1024},
      {"remote key of another PD", mr->lkey, foreign->rkey, (uintptr_t)buffer + 1024},
      {"local key of another PD", foreign->lkey, mr->rkey, (uintptr_t)buffer + 1024},
      {"no right to write", mr->lkey, read_only->rkey, (uintptr_t)buffer + 1024},
      {"beyond the region", mr->lkey, mr->rkey, (uintptr_t)buffer + kBufferBytes - 1},
      {"address wraps", mr->lkey, mr->rkey, UINT64_MAX - 4},
  };
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    struct ibv_qp* pair[2];
    connect_pair(pair, cq, peer_cq);
    struct ibv_send_wr request = good;
    request.wr.rdma.rkey = writes[i].rkey;
    request.wr.rdma.remote_addr = writes[i].remote_addr;
    need(post(pair[0], request, 64, writes[i].lkey) == 0, "write");
    say_completion(writes[i].what, cq);
    need(ibv_destroy_qp(pair[0]) == 0 && ibv_destroy_qp(pair[1]) == 0, "ibv_destroy_qp");
  }

  struct ibv_qp* pair[2];
  connect_pair(pair, cq, peer_cq);
  const struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
  need(post(pair[0], send, 64, mr->lkey) == 0, "send");
  say_completion("send without a receive", cq);

  connect_pair(pair, cq, peer_cq);
  need(post_receive(pair[1], 32, mr->lkey) == 0, "receive");
  need(post(pair[0], send, 64, mr->lkey) == 0, "send");
  say_completion("send longer than the receive: sender", cq);
  say_completion("send longer than the receive: receiver", peer_cq);

  connect_pair(pair, cq, peer_cq);
  const struct ibv_send_wr local_invalidate = {.opcode = IBV_WR_LOCAL_INV};
  if (post(pair[0], local_invalidate, 64, mr->lkey) != 0)
    say("kernel-only opcode: refused by the provider");
  else
    say_completion("kernel-only opcode", cq);
}

static void shared_receive_queue(void) {
  struct ibv_pd* other_pd = ibv_alloc_pd(context);
  struct ibv_srq_init_attr init = {.attr = {.max_wr = kDepth, .max_sge = 1}};
  struct ibv_srq* foreign = ibv_create_srq(other_pd, &init);
  if (foreign == NULL) {
    say("SRQ: none on this device");
    return;
  }
  // A QP may take receives from an SRQ of another PD (IBA 10.2.3). Keys are then checked against the SRQ's PD.
  struct ibv_cq* cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp* receiver = create_qp(IBV_QPT_RC, cq, foreign);
  say("QP with an SRQ of another PD: %s", receiver == NULL ? "refused" : "made");
  if (receiver != NULL) {
    struct ibv_cq* send_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    struct ibv_qp* sender = create_qp(IBV_QPT_RC, send_cq, NULL);
    make_rc_ready(sender, receiver->qp_num);
    make_rc_ready(receiver, sender->qp_num);
    struct ibv_sge sge = piece(kReceiveOffset, 64, mr->lkey);
    struct ibv_recv_wr request = {.sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr* bad;
    need(ibv_post_srq_recv(foreign, &request, &bad) == 0, "ibv_post_srq_recv");
    const struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
    need(post(sender, send, 64, mr->lkey) == 0, "send");
    say_completion("receive key of another PD than the SRQ's: receiver", cq);
  }
}

static void completion_overflow(void) {
  struct ibv_cq* cq = ibv_create_cq(context, 3, NULL, NULL, 0);
  struct ibv_cq* peer_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp* pair[2];
  connect_pair(pair, cq, peer_cq);
  const struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE,
                                      .wr.rdma = {.remote_addr = (uintptr_t)buffer + 1024, .rkey = mr->rkey}};
  const int more = cq->cqe + 4;
  for (int i = 0; i < more; i++) need(post(pair[0], request, 64, mr->lkey) == 0, "write");
  say_event("CQ overflow: event");
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  need(ibv_query_qp(pair[0], &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
  say("CQ overflow: queue pair in error: %s", attr.qp_state == IBV_QPS_ERR ? "yes" : "no");
}

int main(int argc, char** argv) {
  need(argc == 4, "usage: bad_requests DEVICE GID_INDEX ud|rc|srq|overflow");
  int count = 0;
  struct ibv_device** devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; i++)
    if (strcmp(ibv_get_device_name(devices[i]), argv[1]) == 0) context = ibv_open_device(devices[i]);
  need(context != NULL, argv[1]);
  gid_index = atoi(argv[2]);
  need(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
  need(ibv_query_gid(context, 1, gid_index, &gid) == 0, "ibv_query_gid");
  pd = ibv_alloc_pd(context);
  buffer = aligned_alloc(4096, kBufferBytes);
  memset(buffer, 0, kBufferBytes);
  mr = ibv_reg_mr(pd, buffer, kBufferBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  need(pd != NULL && mr != NULL, "PD and MR");
  if (strcmp(argv[3], "ud") == 0) datagrams();
  if (strcmp(argv[3], "rc") == 0) connected();
  if (strcmp(argv[3], "srq") == 0) shared_receive_queue();
  if (strcmp(argv[3], "overflow") == 0) completion_overflow();
  say("done");
  return 0;  // the kernel frees everything
}
