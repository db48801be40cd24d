#include "pvrdmad/daemon.h"

#include <fmt/core.h>
#include <pthread.h>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "device/adapter.h"

namespace pvrdma::daemon {
namespace {

device::AdapterConfig to_device(const control::AdapterConfig& adapter) {
  const auto hardware_version = device::parse_hardware_version(adapter.hardware_version);
  PVRDMA_CHECK(hardware_version.has_value(),
               "the rules of configuration know the device's hardware versions");
  device::AdapterConfig config;
  config.name = adapter.name;
  config.mac = device::MacAddress{adapter.mac};
  config.hardware_version = *hardware_version;
  config.roce = adapter.roce == control::Roce::kV1 ? verbs::RoceVersion::kV1 : verbs::RoceVersion::kV2;
  config.profile =
      adapter.profile == control::Profile::kEsxi ? device::Profile::kEsxi : device::Profile::kOpen;
  return config;
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::create(const control::Config& config, const std::string& version) {
  std::unique_ptr<Daemon> daemon(new Daemon);
  auto loop = shard::Loop::create({.spin = config.daemon.spin}, daemon->clock_);
  if (!loop) return Failure(std::move(loop).error());
  daemon->loop_ = *std::move(loop);
  for (const control::AdapterConfig& each : config.adapters) {
    auto adapter =
        ServedAdapter::create(to_device(each), each.socket, daemon->switch_, *daemon->loop_, daemon->clock_);
    if (!adapter) return Failure(std::move(adapter).error().in("adapter " + each.name));
    daemon->adapters_.push_back(*std::move(adapter));
  }
  daemon->snapshots_ = std::make_unique<ShardSnapshots>(*daemon->loop_, daemon->adapters_, daemon->switch_);
  daemon->control_ = std::make_unique<ShardControl>(*daemon->loop_, daemon->adapters_);
  auto api =
      control::ApiServer::listen(config.daemon.api_socket, version, *daemon->snapshots_, *daemon->control_);
  if (!api) return Failure(std::move(api).error());
  daemon->api_ = *std::move(api);
  return daemon;
}

Daemon::~Daemon() {
  api_.reset();
  if (shard_.joinable()) {
    loop_->stop();
    shard_.join();
  }
  adapters_.clear();
}

Result<void> Daemon::start() {
  for (const auto& adapter : adapters_) {
    if (auto started = adapter->start(); !started) return started;
  }
  for (const auto& adapter : adapters_) {
    const device::AdapterInfo info = adapter->adapter().info();
    log::info("adapter {}: hardware version {}, RoCE {}, waits for its VM at {}", info.name,
              device::number_of(info.hardware_version), info.roce == verbs::RoceVersion::kV1 ? "v1" : "v2",
              adapter->socket());
  }
  shard_ = std::thread([this] { loop_->run(); });
  ::pthread_setname_np(shard_.native_handle(), "shard-0");
  api_->start();
  return {};
}

}  // namespace pvrdma::daemon
