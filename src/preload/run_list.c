#include "preload/run_list.h"

#include <errno.h>

#include "preload/memory_file.h"

int run_list_add(struct run_list* list, uint64_t file_offset, uint64_t bytes) {
  while (bytes != 0) {
    struct pvrdma_wire_run run;
    const uint64_t covered = memory_run(file_offset, bytes, &run);
    if (covered == 0) return EFAULT;
    struct pvrdma_wire_run* const last = list->count == 0 ? NULL : &list->runs[list->count - 1];
    if (last != NULL && last->window == run.window &&
        last->offset + (uint64_t)last->pages * kPageBytes == run.offset) {
      last->pages += run.pages;
    } else if (list->count == PVRDMA_WIRE_MAX_RUNS) {
      return ENOMEM;
    } else {
      list->runs[list->count++] = run;
    }
    file_offset += covered;
    bytes -= covered;
  }
  return 0;
}
