// ShardLinks: the links of the adapters that a shard serves. Thread: any but the shard's.
#pragma once

#include <string>

#include "adapters/adapter_set.h"
#include "adapters/links.h"
#include "shard/loop.h"

namespace pvrdma::adapters {

class ShardLinks final : public Links {
 public:
  // Borrowed; both outlive this and every call. `adapters` is used on the shard only.
  ShardLinks(shard::Loop& loop, const AdapterSet& adapters) : loop_(loop), adapters_(adapters) {}

  Result<void> set(const std::string& adapter, Link link) override;

 private:
  shard::Loop& loop_;
  const AdapterSet& adapters_;
};

}  // namespace pvrdma::adapters
