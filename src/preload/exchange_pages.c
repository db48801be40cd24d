#include "preload/exchange_pages.h"

#include <errno.h>

#include "preload/other_stack.h"
#include "preload/raw.h"
#include "preload/writers.h"

// Runs on a stack that is not part of the pages.
static void exchange_here(void* argument) {
  struct page_exchange* const job = argument;
  char* const fresh =
      job->to_file
          ? raw_mmap(NULL, job->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job->fd, (off_t)job->offset)
          : raw_mmap(NULL, job->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) {
    job->error = ENOMEM;
    return;
  }
  struct stopped_writers writers;
  // The job may lie in the pages whose writers are stopped, so it is not written before they go on.
  int error = stop_writers(job->at, job->bytes, &writers);
  if (error == 0) {
    raw_copy(fresh, (const void*)job->at, job->bytes);  // NOLINT
    const bool plain = job->protection == (PROT_READ | PROT_WRITE);
    if ((!plain && raw_mprotect(fresh, job->bytes, job->protection) != 0) ||
        !raw_mremap_over(fresh, job->bytes, job->at)) {
      error = ENOMEM;
    }
    let_writers_go(&writers);
  }
  if (error != 0) raw_munmap(fresh, job->bytes);
  job->error = error;
}

int exchange_pages(struct page_exchange* job) {
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  const uintptr_t margin = 256 * 1024;  // the stack may grow by this much while it is exchanged
  if (here + margin >= job->at && here < job->at + job->bytes + margin) {
    if (!run_on_other_stack(exchange_here, job, job->is_stack)) return ENOMEM;
  } else {
    exchange_here(job);
  }
  return job->error;
}
