// Names of peers in messages for people. Thread: values.
#pragma once

#include <string>

#include "transport/transport.h"

namespace pvrdma::transport {

// "host esx2" for its first shard, "shard 1 of host esx2" for another one.
std::string peer_name(const std::string& host, ShardNumber shard);

}  // namespace pvrdma::transport
