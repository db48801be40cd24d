#include "fabric/host_gids.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/random_bytes.h"

namespace pvrdma::fabric {
namespace {

constexpr int kTries = 4;  // of a reader that finds a bucket changed: each time a whole command has gone by
constexpr std::uint64_t kVersionOne = std::uint64_t{1} << 40;
constexpr std::uint64_t kReachMask = 0xff;
constexpr std::uint64_t kShardMask = 0xffff;

// The finalizer of splitmix64: every bit of the input changes half of the bits of the output.
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

std::uint64_t make_secret() {
  std::array<std::byte, sizeof(std::uint64_t)> bytes;
  fill_random(bytes);
  return std::bit_cast<std::uint64_t>(bytes);
}

HostGids::Holder holder_in(std::uint64_t state, std::uint64_t place) {
  return {.shard = transport::ShardNumber(static_cast<std::uint16_t>(place & kShardMask)),
          .port = HostGids::PortNumber(static_cast<std::uint32_t>(state >> 8)),
          .reach = static_cast<HostGids::Reach>(state & kReachMask)};
}

}  // namespace

HostGids::HostGids(std::uint32_t shards, std::optional<transport::ShardNumber> ward)
    : shards_(shards), ward_(ward), secret_(make_secret()), sets_(std::make_unique<Set[]>(kSets)) {
  PVRDMA_CHECK(shards >= 1 && shards <= kShardsWithWardMax, "the configuration allows no other number");
}

HostGids::Key::Key(transport::SegmentId id, const verbs::Gid& gid)
    : segment(std::uint64_t{id.dvs} << 32 | std::uint64_t{id.vlan} << 16) {
  std::memcpy(&high, gid.bytes.data(), sizeof(high));
  std::memcpy(&low, gid.bytes.data() + sizeof(high), sizeof(low));
}

std::size_t HostGids::index_of(const Key& key) const {
  return mix(mix(mix(secret_ ^ key.high) ^ key.low) ^ key.segment) % kSets;
}

// The loads of the key acquire, so the second load of the state is behind them. If a part of the key is of a
// later GID, then the state is later, too, because its writer had freed the bucket before (fill()).
std::optional<HostGids::Holder> HostGids::Bucket::read(const Key& key) const {
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = state.load(std::memory_order_acquire);
    if ((before & kReachMask) == 0) return std::nullopt;
    const bool is_high = high.load(std::memory_order_acquire) == key.high;
    const bool is_low = low.load(std::memory_order_acquire) == key.low;
    const std::uint64_t where = place.load(std::memory_order_acquire);
    if (state.load(std::memory_order_relaxed) != before) continue;
    if (!is_high || !is_low || (where & ~kShardMask) != key.segment) return std::nullopt;
    return holder_in(before, where);
  }
  return std::nullopt;  // the segment's generation has changed by now, so the caller looks again
}

bool HostGids::Bucket::is_of(const Key& key) const {
  return !is_free() && high.load(std::memory_order_relaxed) == key.high &&
         low.load(std::memory_order_relaxed) == key.low &&
         (place.load(std::memory_order_relaxed) & ~kShardMask) == key.segment;
}

bool HostGids::Bucket::is_free() const {
  return (state.load(std::memory_order_relaxed) & kReachMask) == 0;
}

HostGids::PortNumber HostGids::Bucket::port() const {
  return holder_in(state.load(std::memory_order_relaxed), 0).port;
}

void HostGids::Bucket::set(PortNumber port, std::uint8_t reach) {
  const std::uint64_t version = state.load(std::memory_order_relaxed) / kVersionOne + 1;
  state.store(version * kVersionOne | std::uint64_t{port.value} << 8 | reach, std::memory_order_release);
}

// The bucket is free, and the stores of the key release that: a reader of a part of the new key finds the
// state changed.
void HostGids::Bucket::fill(const Key& key, const Holder& holder) {
  high.store(key.high, std::memory_order_release);
  low.store(key.low, std::memory_order_release);
  place.store(key.segment | holder.shard.value, std::memory_order_release);
  set(holder.port, static_cast<std::uint8_t>(holder.reach));
}

// The GID is never free meanwhile. A reader that comes in between finds the earlier port on the new shard:
// nothing reaches it there, as it is with both ports.
void HostGids::Bucket::hand_over(const Key& key, const Holder& to) {
  place.store(key.segment | to.shard.value, std::memory_order_release);
  set(to.port, static_cast<std::uint8_t>(to.reach));
}

std::atomic<std::uint64_t>& HostGids::generation(transport::SegmentId segment) {
  const std::scoped_lock lock(mutex_);
  return generations_[segment].value;
}

HostGids::PortNumber HostGids::add_port(transport::SegmentId segment, const std::string& name,
                                        const std::vector<verbs::Gid>& addresses) {
  const std::scoped_lock lock(mutex_);
  const PortNumber port(++last_port_);
  names_.emplace(port.value, name);
  if (addresses.empty()) return port;
  try {
    for (const verbs::Gid& gid : addresses) addresses_[segment].try_emplace(gid, port);
  } catch (const std::bad_alloc&) {
    if (const auto known = addresses_.find(segment); known != addresses_.end())
      std::erase_if(known->second, [port](const auto& entry) { return entry.second == port; });
    names_.erase(port.value);
    throw;
  }
  return port;
}

std::string HostGids::name_of(PortNumber port) {
  const std::scoped_lock lock(mutex_);
  const auto known = names_.find(port.value);
  return known != names_.end() ? known->second : std::string();
}

void HostGids::remove_port(transport::SegmentId segment, PortNumber port,
                           const std::vector<verbs::Gid>& addresses) {
  const std::scoped_lock lock(mutex_);
  names_.erase(port.value);
  const auto known = addresses_.find(segment);
  if (known == addresses_.end()) return;
  for (const verbs::Gid& gid : addresses) {
    const auto it = known->second.find(gid);
    if (it != known->second.end() && it->second == port) known->second.erase(it);
  }
  if (known->second.empty()) addresses_.erase(known);
}

std::optional<HostGids::Refusal> HostGids::bind(transport::SegmentId segment, const verbs::Gid& gid,
                                                const Holder& holder, Claim claim) {
  using Reason = Refusal::Reason;
  const Key key(segment, gid);
  const std::scoped_lock lock(mutex_);
  if (claim == Claim::kFree) {
    const auto known = addresses_.find(segment);
    if (known != addresses_.end()) {
      const auto owner = known->second.find(gid);
      if (owner != known->second.end() && owner->second != holder.port)
        return Refusal{Reason::kAddressOfAnother, names_.at(owner->second.value)};
    }
  }
  Bucket* free = nullptr;
  for (Bucket& bucket : set_of(key)) {
    if (bucket.is_of(key)) return Refusal{Reason::kHeld, names_.at(bucket.port().value)};
    if (bucket.is_free() && free == nullptr) free = &bucket;
  }
  if (free == nullptr) return Refusal{Reason::kFull, {}};
  free->fill(key, holder);
  return std::nullopt;
}

HostGids::Bucket* HostGids::bucket_of(transport::SegmentId segment, const verbs::Gid& gid, PortNumber port) {
  const Key key(segment, gid);
  for (Bucket& bucket : set_of(key)) {
    if (bucket.is_of(key)) return bucket.port() == port ? &bucket : nullptr;
  }
  return nullptr;
}

void HostGids::unbind(transport::SegmentId segment, const verbs::Gid& gid, PortNumber port) {
  const std::scoped_lock lock(mutex_);
  if (Bucket* const bucket = bucket_of(segment, gid, port); bucket != nullptr) bucket->set(port, 0);
}

void HostGids::set_reach(transport::SegmentId segment, const verbs::Gid& gid, PortNumber port, Reach reach) {
  const std::scoped_lock lock(mutex_);
  if (Bucket* const bucket = bucket_of(segment, gid, port); bucket != nullptr)
    bucket->set(port, static_cast<std::uint8_t>(reach));
}

void HostGids::hand_over(transport::SegmentId segment, const verbs::Gid& gid, PortNumber from,
                         const Holder& to) {
  const std::scoped_lock lock(mutex_);
  if (Bucket* const bucket = bucket_of(segment, gid, from); bucket != nullptr)
    bucket->hand_over(Key(segment, gid), to);
}

void HostGids::hand_over_addresses(transport::SegmentId segment, PortNumber from, PortNumber to,
                                   const std::vector<verbs::Gid>& addresses) {
  const std::scoped_lock lock(mutex_);
  const auto known = addresses_.find(segment);
  if (known == addresses_.end()) return;
  for (const verbs::Gid& gid : addresses) {
    const auto owner = known->second.find(gid);
    if (owner != known->second.end() && owner->second == from) owner->second = to;
  }
}

std::optional<HostGids::Holder> HostGids::find(transport::SegmentId segment, const verbs::Gid& gid) const {
  const Key key(segment, gid);
  for (const Bucket& bucket : set_of(key)) {
    if (const auto holder = bucket.read(key)) return holder;
  }
  return std::nullopt;
}

}  // namespace pvrdma::fabric
