// remote_memory serve|use ADDRESS PORT: librpma. The server offers memory. The client writes to it, flushes, and reads it back.
#include <infiniband/verbs.h>
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytes = 64 * 1024 };

#define NEED(condition) need(condition, #condition, __LINE__)

static void need(int good, const char* what, int line) {
  if (good) return;
  fprintf(stderr, "line %d: %s\n", line, what);
  exit(1);
}

static struct rpma_peer* make_peer(enum rpma_util_ibv_context_type type, const char* address) {
  struct ibv_context* context;
  struct rpma_peer* peer;
  NEED(rpma_utils_get_ibv_context(address, type, &context) == 0);
  NEED(rpma_peer_new(context, &peer) == 0);
  return peer;
}

static struct rpma_mr_local* register_memory(struct rpma_peer* peer, char** memory, int usage) {
  struct rpma_mr_local* region;
  *memory = aligned_alloc(4096, kBytes);
  NEED(*memory != NULL && rpma_mr_reg(peer, *memory, kBytes, usage, &region) == 0);
  return region;
}

static void expect(struct rpma_conn* connection, enum rpma_conn_event wanted) {
  enum rpma_conn_event event;
  NEED(rpma_conn_next_event(connection, &event) == 0);
  if (event == RPMA_CONN_REJECTED) fprintf(stderr, "REJECTED\n");
  NEED(event == wanted);
}

static void serve(const char* address, const char* port) {
  struct rpma_peer* peer = make_peer(RPMA_UTIL_IBV_CONTEXT_LOCAL, address);
  char* memory;
  struct rpma_mr_local* region = register_memory(
      peer, &memory, RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
  struct rpma_ep* endpoint;
  NEED(rpma_ep_listen(peer, address, port, &endpoint) == 0);
  char descriptor[64];
  size_t bytes;
  NEED(rpma_mr_get_descriptor_size(region, &bytes) == 0 && bytes <= sizeof descriptor);
  NEED(rpma_mr_get_descriptor(region, descriptor) == 0);
  const struct rpma_conn_private_data offer = {descriptor, (uint8_t)bytes};
  struct rpma_conn_req* request;
  struct rpma_conn* connection;
  NEED(rpma_ep_next_conn_req(endpoint, NULL, &request) == 0);
  NEED(rpma_conn_req_connect(&request, &offer, &connection) == 0);
  expect(connection, RPMA_CONN_ESTABLISHED);
  expect(connection, RPMA_CONN_CLOSED);
  NEED(memory[0] == 'w' && memory[kBytes - 1] == 'w');
  rpma_conn_disconnect(connection);
  NEED(rpma_conn_delete(&connection) == 0 && rpma_ep_shutdown(&endpoint) == 0);
  NEED(rpma_mr_dereg(&region) == 0 && rpma_peer_delete(&peer) == 0);
}

static void await(struct rpma_conn* connection, enum ibv_wc_opcode wanted) {
  struct rpma_cq* queue;
  struct ibv_wc done;
  NEED(rpma_conn_get_cq(connection, &queue) == 0 && rpma_cq_wait(queue) == 0);
  NEED(rpma_cq_get_wc(queue, 1, &done, NULL) == 0);
  NEED(done.status == IBV_WC_SUCCESS && done.opcode == wanted);
}

static void use(const char* address, const char* port) {
  struct rpma_peer* peer = make_peer(RPMA_UTIL_IBV_CONTEXT_REMOTE, address);
  char* memory;
  struct rpma_mr_local* region = register_memory(peer, &memory, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC);
  struct rpma_conn_req* request;
  struct rpma_conn* connection;
  NEED(rpma_conn_req_new(peer, address, port, NULL, &request) == 0);
  NEED(rpma_conn_req_connect(&request, NULL, &connection) == 0);
  expect(connection, RPMA_CONN_ESTABLISHED);
  struct rpma_conn_private_data offer;
  struct rpma_mr_remote* remote;
  NEED(rpma_conn_get_private_data(connection, &offer) == 0);
  NEED(rpma_mr_remote_from_descriptor(offer.ptr, offer.len, &remote) == 0);
  memset(memory, 'w', kBytes);
  NEED(rpma_write(connection, remote, 0, region, 0, kBytes, RPMA_F_COMPLETION_ON_ERROR, NULL) == 0);
  NEED(rpma_flush(connection, remote, 0, kBytes, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL) == 0);
  await(connection, IBV_WC_RDMA_READ);
  memset(memory, 'x', kBytes);
  NEED(rpma_read(connection, region, 0, remote, 0, kBytes, RPMA_F_COMPLETION_ALWAYS, NULL) == 0);
  await(connection, IBV_WC_RDMA_READ);
  NEED(memory[0] == 'w' && memory[kBytes - 1] == 'w');
  NEED(rpma_conn_disconnect(connection) == 0);
  expect(connection, RPMA_CONN_CLOSED);
  NEED(rpma_mr_remote_delete(&remote) == 0 && rpma_conn_delete(&connection) == 0);
  NEED(rpma_mr_dereg(&region) == 0 && rpma_peer_delete(&peer) == 0);
}

int main(int count, char** arguments) {
  NEED(count == 4);
  (strcmp(arguments[1], "serve") == 0 ? serve : use)(arguments[2], arguments[3]);
  printf("passed\n");
  return 0;
}
