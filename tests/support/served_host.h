// ServedHost: what pvrdmad runs, inside the test: one shard thread that serves N adapters on vfio-user
// sockets in a directory of their own. Sanitizers see both sides. Log lines appear with PVRDMA_TEST_LOG set
// in the environment.
//
// Thread: the test's. on_shard() runs code on the shard's thread and waits for it.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "device/adapter.h"
#include "fabric/port.h"
#include "fabric/switch.h"
#include "shard/loop.h"
#include "support/must.h"
#include "support/testbench.h"
#include "transport/local/local.h"
#include "vfio_user/server.h"

namespace pvrdma::test {

// One adapter on its socket, driven by a Loop. Thread: the shard's.
class AdapterService final : private shard::FdHandler, private shard::Pollable {
 public:
  AdapterService(const device::AdapterConfig& config, const std::string& socket_path,
                 fabric::Switch& fabric_switch, shard::Loop& loop, const Clock& clock);
  ~AdapterService() override;

  device::Adapter& adapter() { return *adapter_; }
  fabric::Port& port() { return port_; }

 private:
  void on_fd_ready(int fd, shard::Readiness ready) override;
  bool run(Instant now) override { return adapter_->run(now); }
  void on_time(Instant now) override { adapter_->on_time(now); }
  Instant next_deadline() const override { return adapter_->next_deadline(); }
  void follow_connection();

  shard::Loop& loop_;
  fabric::Port port_;
  std::unique_ptr<device::Adapter> adapter_;
  std::unique_ptr<vfio_user::Server> server_;
  int watched_fd_ = -1;
  bool waits_to_write_ = false;
};

class ServedHost {
 public:
  explicit ServedHost(const TestbenchOptions& options = {});
  ~ServedHost();
  ServedHost(const ServedHost&) = delete;
  ServedHost& operator=(const ServedHost&) = delete;

  const std::string& socket_path(std::uint32_t index) const { return paths_[index]; }

  // Runs `work(AdapterService&)` for one adapter on the shard's thread; returns what it returns.
  template <typename Work>
  auto on_shard(std::uint32_t index, Work work) {
    using Answer = std::invoke_result_t<Work, AdapterService&>;
    std::promise<Answer> promise;
    std::future<Answer> answer = promise.get_future();
    AdapterService& service = *services_[index];
    const bool posted = loop_->post([&promise, &service, work = std::move(work)]() mutable {
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

  device::AdapterInfo info(std::uint32_t index) {
    return on_shard(index, [](AdapterService& service) { return service.adapter().info(); });
  }

 private:
  SteadyClock clock_;
  std::string directory_;
  std::vector<std::string> paths_;
  transport::Local local_;
  std::unique_ptr<shard::Loop> loop_;
  fabric::Switch switch_;
  std::vector<std::unique_ptr<AdapterService>> services_;
  std::thread thread_;
};

}  // namespace pvrdma::test
