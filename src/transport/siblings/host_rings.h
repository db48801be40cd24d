// HostRings: the rings between all shards of this host, and the bells that wake them.
//
// Made before the shards' threads, and gone when the last one that shares it is.
//
// Thread: any, for what is said here; the rings as ring.h says. Immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "transport/siblings/bell.h"
#include "transport/siblings/ring.h"
#include "transport/transport.h"

namespace pvrdma::transport::siblings {

// The rings from one shard to another. Two, because an answer must never wait behind a request.
struct Way {
  Ring requests;  // and datagrams
  Ring answers;
};

class HostRings {
 public:
  // Errors: those of Bell::create().
  static Result<std::shared_ptr<HostRings>> create(std::uint32_t shards) {
    std::shared_ptr<HostRings> made(new HostRings);
    for (std::uint32_t i = 0; i < shards; ++i) {
      auto bell = Bell::create();
      if (!bell) return Failure(std::move(bell).error());
      made->bells_.push_back(*std::move(bell));
    }
    made->ways_.resize(std::size_t{shards} * shards);
    for (std::uint32_t i = 0; i < made->ways_.size(); ++i) {
      if (i / shards != i % shards) made->ways_[i] = std::make_unique<Way>();
    }
    return made;
  }
  HostRings(const HostRings&) = delete;
  HostRings& operator=(const HostRings&) = delete;

  std::uint32_t shards() const { return static_cast<std::uint32_t>(bells_.size()); }
  Bell& bell(ShardNumber shard) const { return *bells_[shard.value]; }
  // `from` and `to` differ.
  Way& way(ShardNumber from, ShardNumber to) const { return *ways_[from.value * bells_.size() + to.value]; }

 private:
  HostRings() = default;

  std::vector<std::unique_ptr<Bell>> bells_;  // by shard
  std::vector<std::unique_ptr<Way>> ways_;    // by sender and receiver; null if they are the same
};

}  // namespace pvrdma::transport::siblings
