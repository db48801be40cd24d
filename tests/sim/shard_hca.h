// ShardHca: the Hca of one shard in a ShardedCluster, and Nics, the simulated NICs of all shards. Each shard
// has a NIC of its own: the simulated network opens each device once.
//
// Thread: the world's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/time.h"
#include "fabric/fabric.h"
#include "shard/loop.h"
#include "sim/lane_network.h"
#include "transport/hca/fake_nic.h"
#include "transport/hca/fake_surroundings.h"
#include "transport/hca/hca.h"

namespace pvrdma::sim {

class Nics {
 public:
  // `clock` is borrowed.
  Nics(std::uint64_t seed, const Clock& clock);
  ~Nics();
  Nics(const Nics&) = delete;
  Nics& operator=(const Nics&) = delete;

  // Delivers what is due.
  void turn() { loop_->turn(Duration{0}); }
  Instant next_event() const { return network.next_deadline(); }

  transport::hca::FakeNetwork network;
  transport::hca::HostBook book;
  // Each is called when its shard has got something to do from another one.
  std::map<std::pair<std::string, transport::ShardNumber>, std::function<void()>> wakers;

 private:
  const std::unique_ptr<shard::Loop> loop_;
};

class ShardHca {
 public:
  // Which shard, and of which host. `index` counts shards over all hosts.
  struct Where {
    std::uint32_t index;
    std::uint32_t host;
    std::uint32_t shards_of_each;

    transport::ShardNumber number() const {
      return transport::ShardNumber(static_cast<std::uint16_t>(index % shards_of_each));
    }
    std::string host_name() const { return "host-" + std::to_string(host); }
    std::string device() const { return "rdma" + std::to_string(index); }
  };

  // All references are borrowed, and outlive this. `wake`: the shard has something to do.
  ShardHca(Nics& nics, const Where& where, shard::Loop& loop, const Clock& clock, fabric::Fabric& fabric,
           const HostTransport& tcp, std::function<void()> wake);
  ~ShardHca();
  ShardHca(const ShardHca&) = delete;
  ShardHca& operator=(const ShardHca&) = delete;

  void configure(const fabric::View& view);
  // Connects to each shard that the view reaches by HCA.
  void prepare(const fabric::View& view);
  bool is_up(transport::HostId host) const { return hca_->is_up(host); }
  Instant next_deadline() const { return std::min(hca_->next_deadline(), worker_.next_deadline()); }
  std::uint64_t messages() const { return hca_->counters().messages(); }
  std::uint64_t fetched() const { return hca_->bulk().fetched; }

 private:
  // Wakes the shard that has answered.
  class Introducer final : public transport::hca::Introducer {
   public:
    Introducer(Nics& nics, const std::string& self) : nics_(nics), inner_(nics.book, self) {}
    Result<transport::hca::PipeAnswer> introduce(const std::string& host,
                                                 const transport::hca::PipeOffer& offer) override;

   private:
    Nics& nics_;
    transport::hca::DirectIntroducer inner_;
  };

  Nics& nics_;
  const Where where_;
  shard::Loop& loop_;
  fabric::Fabric& fabric_;
  transport::hca::LaterWorker worker_;
  Introducer introducer_;
  std::unique_ptr<transport::Hca> hca_;
};

}  // namespace pvrdma::sim
