// ShardCaptures: captures of the adapters of this host. The adapter's shard fills a capture's ring; the
// thread that asked for the capture reads the ring and makes the file. Thread: any but a shard's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

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
  std::vector<CaptureState> list() override;
  Result<void> end(std::uint64_t id) override;

 private:
  struct Running {
    CaptureState state;
    bool is_ended = false;  // by end()
  };
  class Place;
  class Stream;

  const Shards& shards_;
  Reaper& reaper_;
  const std::string version_;
  std::mutex mutex_;
  std::uint64_t last_id_ = 0;                 // guarded by mutex_
  std::map<std::uint64_t, Running> running_;  // guarded by mutex_
};

}  // namespace pvrdma::adapters
