// A library for LD_PRELOAD, for programs that listen and connect twice, as perftest does with -R: the second rdma_connect()
// waits until the server listens for the second time, but not for ever.
//
// Server and client tell each other by files in the folder $LISTENS_AGAIN: "listening-N" when the program has listened for the
// Nth time, "connecting-N" when it wants to connect for the Nth time. A test creates "listening-2" itself if it cannot load the
// library into the server.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct rdma_cm_id;
struct rdma_conn_param;

enum { kPathMax = 256, kPollUs = 10000, kPollsMax = 3000 };

static void path_of(char path[kPathMax], const char* what, int count) {
  snprintf(path, kPathMax, "%s/%s-%d", getenv("LISTENS_AGAIN"), what, count);
}

static void tell(const char* what, int count) {
  char path[kPathMax];
  path_of(path, what, count);
  close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

int rdma_listen(struct rdma_cm_id* id, int backlog) {
  static int count;
  int (*const next)(struct rdma_cm_id*, int) = (int (*)(struct rdma_cm_id*, int))dlsym(RTLD_NEXT, "rdma_listen");
  const int result = next(id, backlog);
  if (result == 0) tell("listening", ++count);
  return result;
}

int rdma_connect(struct rdma_cm_id* id, struct rdma_conn_param* param) {
  static int count;
  int (*const next)(struct rdma_cm_id*, struct rdma_conn_param*) =
      (int (*)(struct rdma_cm_id*, struct rdma_conn_param*))dlsym(RTLD_NEXT, "rdma_connect");
  tell("connecting", ++count);
  char second[kPathMax];
  path_of(second, "listening", 2);
  for (int i = 0; i < kPollsMax && count == 2 && access(second, F_OK) != 0; ++i) usleep(kPollUs);
  return next(id, param);
}
