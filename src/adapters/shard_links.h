// ShardLinks: the links of the adapters of this host, which belong to its shards. Thread: any but a shard's.
#pragma once

#include <string>

#include "adapters/links.h"
#include "adapters/shards.h"

namespace pvrdma::adapters {

class ShardLinks final : public Links {
 public:
  // Borrowed; they outlive this and every call.
  explicit ShardLinks(const Shards& shards) : shards_(shards) {}

  Result<void> set(const std::string& adapter, Link link) override;

 private:
  const Shards& shards_;
};

}  // namespace pvrdma::adapters
