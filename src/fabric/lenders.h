// Lenders: the adapters of other shards, as parties that can be blamed (base/blame.h) for memory that they
// lend to this shard. A party is made when a message of the adapter comes while pieces are timed.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/blame.h"
#include "base/time.h"
#include "fabric/host_gids.h"

namespace pvrdma::fabric {

class Lenders {
 public:
  // Is told between turns: reading that adapter's memory took so long in one turn. Must not block or throw.
  using Tell = std::function<void(const std::string& adapter, Duration took)>;

  // `blame` and `host` are borrowed.
  Lenders(Blame& blame, HostGids& host, Tell tell);
  ~Lenders();
  Lenders(const Lenders&) = delete;
  Lenders& operator=(const Lenders&) = delete;

  bool are_watched() const { return blame_.is_watching(); }
  // Null: the port is gone, or there is no memory. Called while no piece of a lender exists.
  Blame::Party* find(HostGids::PortNumber port);

 private:
  class Lender;
  // Numbers are not used again, so those of ports that are gone pile up until then.
  static constexpr std::size_t kMax = 256;

  Blame& blame_;
  HostGids& host_;
  const Tell tell_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Lender>> by_port_;
};

}  // namespace pvrdma::fabric
