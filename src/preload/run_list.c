#include "preload/run_list.h"

#include <errno.h>

#include "preload/memory_file.h"

static int add_run(struct run_list* list, struct pvrdma_wire_run run) {
  struct pvrdma_wire_run* const last = list->count == 0 ? NULL : &list->runs[list->count - 1];
  if (last != NULL && last->window == run.window &&
      last->offset + (uint64_t)last->pages * kPageBytes == run.offset) {
    last->pages += run.pages;
    return 0;
  }
  if (list->count == PVRDMA_WIRE_MAX_RUNS) return ENOMEM;
  list->runs[list->count++] = run;
  return 0;
}

int run_list_add(struct run_list* list, uint64_t file_offset, uint64_t bytes) {
  while (bytes != 0) {
    struct pvrdma_wire_run run;
    const uint64_t covered = memory_run(file_offset, bytes, &run);
    if (covered == 0) return EFAULT;
    const int error = add_run(list, run);
    if (error != 0) return error;
    file_offset += covered;
    bytes -= covered;
  }
  return 0;
}

int run_list_add_of_window(struct run_list* list, uint32_t window, uint64_t offset, uint64_t bytes) {
  return add_run(list, (struct pvrdma_wire_run){
                           .offset = offset, .pages = (uint32_t)(bytes / kPageBytes), .window = window});
}
