#include "preload/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/raw.h"
#include "preload/wire.h"

#define STARTS_WITH(text, literal) (strncmp(text, literal, sizeof(literal) - 1) == 0)

const char* standin_folder(void) {
  const char* const folder = getenv("PVRDMA_STANDIN");
  return folder != NULL && folder[0] == '/' ? folder : NULL;
}

static bool is_emulated(const char* path) {
  return STARTS_WITH(path, "/sys/class/infiniband") || STARTS_WITH(path, "/dev/infiniband") ||
         STARTS_WITH(path, "/sys/class/misc/rdma_cm");
}

bool is_uverbs_path(const char* path) {
  return path != NULL && strcmp(path, "/dev/infiniband/uverbs0") == 0 && standin_folder() != NULL;
}

bool is_cm_path(const char* path) {
  return path != NULL && strcmp(path, "/dev/infiniband/rdma_cm") == 0 && standin_folder() != NULL;
}

bool is_device_list(const char* path) {
  return path != NULL && STARTS_WITH(path, "/sys/class/infiniband_verbs") &&
         strspn(path + sizeof "/sys/class/infiniband_verbs" - 1, "/") ==
             strlen(path + sizeof "/sys/class/infiniband_verbs" - 1) &&
         standin_folder() != NULL;
}

const char* translate(const char* path, char buffer[PATH_MAX]) {
  if (path == NULL || path[0] != '/' || !is_emulated(path)) return path;
  const char* const folder = standin_folder();
  if (folder == NULL) return path;
  const int length = snprintf(buffer, PATH_MAX, "%s/" PVRDMA_WIRE_TREE_NAME "%s", folder, path);
  return length < PATH_MAX ? buffer : path;
}
