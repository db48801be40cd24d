// ServedHost: runs what pvrdmad runs, inside the test: one shard thread, or several, that serve N adapters on
// vfio-user sockets in a directory of their own. So sanitizers see both sides. If PVRDMA_TEST_LOG is set in
// the environment, log lines are printed.
//
// Thread: the test's. on_shard() runs code on the thread of an adapter's shard and waits for it.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "adapters/served_adapter.h"
#include "device/adapter.h"
#include "fabric/fabric.h"
#include "fabric/host_gids.h"
#include "shard/loop.h"
#include "support/must.h"
#include "support/testbench.h"
#include "transport/local/local.h"
#include "transport/siblings/siblings.h"

namespace pvrdma::test {

class ServedHost {
 public:
  explicit ServedHost(const TestbenchOptions& options = {});
  ~ServedHost();
  ServedHost(const ServedHost&) = delete;
  ServedHost& operator=(const ServedHost&) = delete;

  Reaper& reaper() { return *reaper_; }

  // Makes a second adapter like adapter `index` on the same switch, with a socket of its own, to which the VM
  // can move. Returns its index.
  std::uint32_t add_twin(std::uint32_t index);

  // The kept adapter that the daemon's next process would get.
  adapters::KeptAdapter keep(std::uint32_t index, device::Adapter::Objects objects);
  // Destroys the adapter without telling its client, and replaces it by one that takes `kept` back. If `kept`
  // cannot be read, nothing happens.
  Result<void> take_back(std::uint32_t index, const adapters::KeptAdapter& kept);
  // Does so with all adapters, of one shard.
  void restart();

  const std::string& socket_path(std::uint32_t index) const { return paths_[index]; }

  // Runs `work(adapters::ServedAdapter&)` for one adapter on the shard's thread, and returns its result.
  template <typename Work>
  auto on_shard(std::uint32_t index, Work work) {
    using Answer = std::invoke_result_t<Work, adapters::ServedAdapter&>;
    std::promise<Answer> promise;
    std::future<Answer> answer = promise.get_future();
    adapters::ServedAdapter& service = *adapters_[index];
    const bool posted = shard_of(index).loop->post([&promise, &service, work = std::move(work)]() mutable {
      if constexpr (std::is_void_v<Answer>) {
        work(service);
        promise.set_value();
      } else {
        promise.set_value(work(service));
      }
    });
    if (!posted) throw std::runtime_error("the shard takes no tasks");
    return answer.get();
  }

  // Of the shard that has the adapter.
  shard::LoopCounters loop_counters(std::uint32_t index) {
    return on_shard(index,
                    [&loop = *shard_of(index).loop](adapters::ServedAdapter&) { return loop.counters(); });
  }
  device::AdapterInfo info(std::uint32_t index) {
    return on_shard(index, [](adapters::ServedAdapter& service) { return service.adapter().info(); });
  }

 private:
  adapters::KeptAdapter keep_here(std::uint32_t index, device::Adapter::Objects objects);
  Result<void> take_back_here(std::uint32_t index, const adapters::KeptAdapter& kept);
  std::unique_ptr<adapters::ServedAdapter> serve(std::uint32_t index, const std::string& path,
                                                 const adapters::GivenBack* given = nullptr);

  struct Shard {
    std::unique_ptr<shard::Loop> loop;
    std::unique_ptr<fabric::Fabric> fabric;
    std::unique_ptr<transport::Siblings> siblings;  // null: the host has one shard
    std::unique_ptr<const adapters::ServingParts> parts;
    std::thread thread;
  };
  void add_shard(transport::ShardNumber number);
  Shard& shard_of(std::uint32_t index) { return shards_[index % shards_.size()]; }

  const TestbenchOptions options_;
  SteadyClock clock_;
  std::unique_ptr<Reaper> reaper_;
  std::string directory_;
  std::vector<std::string> paths_;
  transport::Local local_;  // of the only shard
  adapters::Keeping keeping_{[] {}};
  fabric::HostGids gids_;
  std::shared_ptr<transport::siblings::HostRings> rings_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<adapters::ServedAdapter>> adapters_;
};

}  // namespace pvrdma::test
