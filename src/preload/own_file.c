#include "preload/own_file.h"

#include "preload/raw.h"

static bool is_same(const struct own_file* own) {
  struct stat status;
  return own->fd >= 0 && raw_fstat(own->fd, &status) == 0 && status.st_dev == own->device &&
         status.st_ino == own->inode;
}

bool own_file_take(struct own_file* own, int fd) {
  struct stat status;
  if (raw_fstat(fd, &status) != 0) return false;
  *own = (struct own_file){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
  return true;
}

bool own_file_is_open(const struct own_file* own) {
  if (is_same(own)) return true;
  log_line(true, "the program has closed descriptor %d, which the RDMA device needs: open the device after closing descriptors",
           own->fd);
  return false;
}

void own_file_close(struct own_file* own) {
  if (is_same(own)) raw_close(own->fd);
  *own = NO_FILE;
}
