// Which paths of the kernel's RDMA files the stand-in's folder answers for. Thread: any.
#pragma once

#include <limits.h>
#include <stdbool.h>

// The stand-in's folder, or NULL if this process was not started with one.
const char* standin_folder(void);

// True for the paths of the device files that programs open to use the adapter, and to make connections.
bool is_uverbs_path(const char* path);
bool is_cm_path(const char* path);
// True for the folder that libibverbs lists to find devices.
bool is_device_list(const char* path);

// Returns `path`, or for a path below /sys/class/infiniband* or /dev/infiniband, or
// /sys/class/misc/rdma_cm, the file of the stand-in's tree that answers for it, written to `buffer`.
const char* translate(const char* path, char buffer[PATH_MAX]);
