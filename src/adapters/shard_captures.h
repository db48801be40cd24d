// ShardCaptures: captures of the adapters of this host. The adapter's shard fills a capture's ring; the
// thread that asked for the capture reads the ring and makes the file. Thread: any but a shard's.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "adapters/captures.h"
#include "adapters/shards.h"
#include "base/reaper.h"

namespace pvrdma::adapters {

class ShardCaptures final : public Captures {
 public:
  // All borrowed but the version; they outlive this, every call and every capture.
  ShardCaptures(const Shards& shards, Reaper& reaper, std::string version)
      : shards_(shards), reaper_(reaper), version_(std::move(version)) {}

  Result<std::unique_ptr<ByteStream>> start(const CaptureWish& wish) override;

 private:
  class Place;
  class Stream;

  const Shards& shards_;
  Reaper& reaper_;
  const std::string version_;
  std::atomic<std::size_t> taken_{0};  // captures that exist
};

}  // namespace pvrdma::adapters
