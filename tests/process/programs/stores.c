// stores CASE: the program's own stores to registered memory are not lost, and stay its own.
//
// fork: parent and child see their own stores only, in memory of the heap and on the stack that they run on. thread_stack: a thread
// registers a part of its own stack. threads: memory is registered and deregistered while other threads store to it.
// threads_in_a_container: the same where userfaultfd is forbidden, as in the default profiles of containers.
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 1024, kThreads = 3, kForks = 20, kRegistrations = 30, kRounds = 30 };

static struct ibv_pd* pd;

static void need(int good, const char* what) {
  if (good) return;
  perror(what);
  _Exit(1);
}

static struct ibv_mr* register_memory(void* start, size_t bytes) {
  struct ibv_mr* const region = ibv_reg_mr(pd, start, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  need(region != NULL, "ibv_reg_mr");
  return region;
}

static void fork_once(int number, char* heap, char* stack) {
  const pid_t child = fork();
  need(child >= 0, "fork");
  if (child == 0) {
    const int same = strcmp(heap, "parent") == 0 && strcmp(stack, "parent") == 0;
    strcpy(heap, "child");
    strcpy(stack, "child");
    _exit(same ? number : 255);
  }
  int status;
  need(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == number, "the child's memory");
  need(strcmp(heap, "parent") == 0 && strcmp(stack, "parent") == 0, "the parent's memory");
}

static struct ibv_mr* register_main_stack(void) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  need(maps != NULL, "/proc/self/maps");
  char line[512];
  uintptr_t start = 0;
  uintptr_t end = 0;
  while (fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, "[stack]") != NULL) sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end);
  }
  fclose(maps);
  return register_memory((void*)start, end - start);
}

static void fork_often(void) {
  char stack[] = "parent";
  char* const heap = malloc(kPage);
  need(heap != NULL, "malloc");
  strcpy(heap, stack);
  struct ibv_mr* const regions[] = {register_memory(heap, kPage), register_main_stack()};
  for (int number = 0; number < kForks; ++number) fork_once(number, heap, stack);
  need(ibv_dereg_mr(regions[0]) == 0 && ibv_dereg_mr(regions[1]) == 0, "ibv_dereg_mr");
}

static void* use_own_stack(void* unused) {
  (void)unused;
  _Alignas(kPage) char stack[2 * kPage] = "thread";
  need(ibv_dereg_mr(register_memory(stack, sizeof stack)) == 0 && strcmp(stack, "thread") == 0, "the thread's stack");
  return NULL;
}

static void register_thread_stack(void) {
  pthread_t thread;
  need(pthread_create(&thread, NULL, use_own_stack, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
}

// Each thread has a counter in each page.
static unsigned (*pages)[kPage / sizeof(unsigned)];
static unsigned rounds[kThreads];
static atomic_uint fewest_rounds;
static atomic_int stop;

static void* count(void* number) {
  const size_t thread = (size_t)number;
  while (!stop) {
    for (size_t page = 0; page < kPages; ++page) ++*(volatile unsigned*)&pages[page][thread];
    ++rounds[thread];
    if (thread == 0) fewest_rounds = rounds[0];
  }
  return NULL;
}

static void register_under_stores(void) {
  pthread_t threads[kThreads];
  pages = aligned_alloc(kPage, kPages * kPage);
  need(pages != NULL, "memory");
  memset(pages, 0, kPages * kPage);
  for (size_t number = 0; number < kThreads; ++number) {
    need(pthread_create(&threads[number], NULL, count, (void*)number) == 0, "a thread");
  }
  for (int done = 0; done < kRegistrations || fewest_rounds < kRounds; ++done) {
    need(ibv_dereg_mr(register_memory(pages, kPages / 2 * kPage)) == 0, "ibv_dereg_mr");
    usleep(500);
  }
  stop = 1;
  for (size_t number = 0; number < kThreads; ++number) {
    need(pthread_join(threads[number], NULL) == 0, "the end of a thread");
    for (size_t page = 0; page < kPages; ++page) need(pages[page][number] == rounds[number], "a store was lost");
  }
}

static void forbid_userfaultfd(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
  need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

int main(int argc, char** arguments) {
  need(argc == 2, "the name of a case");
  struct ibv_device** const devices = ibv_get_device_list(NULL);
  need(devices != NULL && devices[0] != NULL, "a device");
  struct ibv_context* const context = ibv_open_device(devices[0]);
  need(context != NULL, "ibv_open_device");
  pd = ibv_alloc_pd(context);
  need(pd != NULL, "ibv_alloc_pd");
  const char* const name = arguments[1];
  if (strcmp(name, "threads_in_a_container") == 0) forbid_userfaultfd();
  if (strcmp(name, "fork") == 0) {
    fork_often();
  } else if (strcmp(name, "thread_stack") == 0) {
    register_thread_stack();
  } else {
    register_under_stores();
  }
  need(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "the end");
  printf("passed\n");
  return 0;
}
