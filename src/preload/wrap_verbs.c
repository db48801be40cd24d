// Hooks in libibverbs: arming a CQ, posting with trapped doorbells, and the MAC behind a GID.
//
// Mapped doorbells of posts need no hook: the provider stores them into the real page. An ARM stored there can be
// hidden by the next one before the daemon sees it, and a program that counts events would wait for ever; so
// an ARM is a request, which the stand-in rings and then answers. With trapped doorbells each post is such a
// request, because the page that the provider stores into is nobody's. It stores there that it has polled, too, which
// the device need not know.

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/vmw_pvrdma-abi.h>

#include "preload/descriptors.h"
#include "preload/raw.h"
#include "preload/uverbs.h"

// libibverbs' own interface to its providers, which has no public header.
struct verbs_context_ops;
void verbs_set_ops(struct verbs_context* context, const struct verbs_context_ops* ops);

// UCX loads libibverbs for its plug-ins only, where RTLD_NEXT does not look.
static void* find_in_libibverbs(const char* name) {
  void* const next = dlsym(RTLD_NEXT, name);
  if (next != NULL) return next;
  void* const library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return library != NULL ? dlsym(library, name) : NULL;
}

static bool is_our_context(const struct ibv_context* context) {
  const struct descriptor* const ours = descriptor_of(context->cmd_fd);
  return ours != NULL && ours->kind == kUverbsFile;
}

static int arm(struct ibv_cq* cq, int solicited_only) {
  const uint32_t what = solicited_only ? PVRDMA_UAR_CQ_ARM_SOL : PVRDMA_UAR_CQ_ARM;
  return uverbs_ring(cq->context->cmd_fd, PVRDMA_UAR_CQ_OFFSET, (cq->handle & PVRDMA_UAR_HANDLE_MASK) | what);
}

// Of the one provider; it sets the same for each context.
static struct ibv_context_ops provider;

// What the provider has queued is posted, whether the device can hear of it or not: programs would look for a bad request
// among those if a post failed now. DEVICE_FATAL tells them that the device is gone, as with mapped doorbells.
static void ring_qp(const struct ibv_qp* qp, uint32_t what) {
  uverbs_ring(qp->context->cmd_fd, PVRDMA_UAR_QP_OFFSET, (qp->handle & PVRDMA_UAR_HANDLE_MASK) | what);
}

static int post_send(struct ibv_qp* qp, struct ibv_send_wr* work, struct ibv_send_wr** bad) {
  const int error = provider.post_send(qp, work, bad);
  ring_qp(qp, PVRDMA_UAR_QP_SEND);  // also for what was posted before the bad one
  return error;
}

static int post_recv(struct ibv_qp* qp, struct ibv_recv_wr* work, struct ibv_recv_wr** bad) {
  const int error = provider.post_recv(qp, work, bad);
  ring_qp(qp, (uint32_t)PVRDMA_UAR_QP_RECV);
  return error;
}

static int post_srq_recv(struct ibv_srq* srq, struct ibv_recv_wr* work, struct ibv_recv_wr** bad) {
  const int error = provider.post_srq_recv(srq, work, bad);
  const uint32_t word = (srq->handle & PVRDMA_UAR_HANDLE_MASK) | PVRDMA_UAR_SRQ_RECV;
  uverbs_ring(srq->context->cmd_fd, PVRDMA_UAR_SRQ_OFFSET, word);
  return error;
}

static void hook_posts(struct ibv_context_ops* ops) {
  if (ops->post_send == post_send) return;
  provider = *ops;
  ops->post_send = post_send;
  ops->post_recv = post_recv;
  ops->post_srq_recv = post_srq_recv;
}

// libibverbs calls it twice for a context: with functions that fail, then for the provider, which has a context of
// the device by then.
EXPORTED void verbs_set_ops(struct verbs_context* context, const struct verbs_context_ops* ops) {
  static __typeof__(&verbs_set_ops) next;
  if (next == NULL) next = (__typeof__(&verbs_set_ops))find_in_libibverbs("verbs_set_ops");
  next(context, ops);
  if (context->sz != sizeof *context) {
    log_line(true,
             "this libibverbs has contexts of %zu bytes instead of %zu: completion events may be lost; with trapped doorbells "
             "posts do not reach the device",
             context->sz, sizeof *context);
  } else if (is_our_context(&context->context)) {
    context->context.ops.req_notify_cq = arm;
    if (uverbs_is_trapped(context->context.cmd_fd)) hook_posts(&context->context.ops);
  }
}

EXPORTED int ibv_resolve_eth_l2_from_gid(struct ibv_context* context, struct ibv_ah_attr* attributes,
                                         uint8_t mac[6], uint16_t* vlan) {
  if (is_our_context(context)) {
    if (vlan != NULL) *vlan = 0xffff;  // none
    const int error = uverbs_resolve(attributes->grh.dgid.raw, mac);
    if (error == 0) return 0;
    errno = error;
    return -1;
  }
  static __typeof__(&ibv_resolve_eth_l2_from_gid) next;
  if (next == NULL)
    next = (__typeof__(&ibv_resolve_eth_l2_from_gid))find_in_libibverbs("ibv_resolve_eth_l2_from_gid");
  return next(context, attributes, mac, vlan);
}
