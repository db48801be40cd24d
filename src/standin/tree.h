// The tree of files that a program finds below /sys and /dev instead of a kernel's: one RDMA device
// `vmw_pvrdma0` as libibverbs, UCX and perftest look for it.
//
// The files are ordinary ones, written once when the stand-in starts. The preload library leads the program's
// calls there.
//
// Thread: the stand-in's start; blocks on the file system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "abi/attributes.h"
#include "abi/shared_region.h"
#include "base/result.h"

namespace pvrdma::standin {

struct TreeFacts {
  std::uint32_t device_version = 0;
  abi::Caps caps{};
  abi::PortAttr port{};
  std::vector<abi::Gid> gids;  // by index; the rest of the table is empty
};

// Writes the tree into `folder`, which is made, after removing what an earlier stand-in has left there.
// Errors name the path.
Result<> write_tree(const std::string& folder, const TreeFacts& facts);

}  // namespace pvrdma::standin
