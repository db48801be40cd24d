#include "transport/peer_name.h"

#include <fmt/core.h>

namespace pvrdma::transport {

std::string peer_name(const std::string& host, ShardNumber shard) {
  return shard == ShardNumber{} ? "host " + host : fmt::format("shard {} of host {}", shard.value, host);
}

}  // namespace pvrdma::transport
