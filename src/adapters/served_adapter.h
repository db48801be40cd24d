// ServedAdapter: one adapter with its port on the switch and its vfio-user socket, driven by a shard's loop.
//
// A client whose adapter is over its rate of commands or doorbells is not read until that is paid for: its
// vCPUs wait, nobody else does.
//
// Life: create() makes all of it and listens on the socket, start() begins to serve. Destruction ends the
// session (the engine drops its objects and unbinds its GIDs), then detaches the port, then destroys the
// adapter.
//
// Thread: shard-owned. Made and destroyed while the loop does not run, or from a task posted to it.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters/adapter_fault.h"
#include "base/reaper.h"
#include "base/result.h"
#include "base/time.h"
#include "capture/capture.h"
#include "device/adapter.h"
#include "fabric/port.h"
#include "fabric/switch.h"
#include "shard/loop.h"
#include "vfio_user/server.h"

namespace pvrdma::adapters {

class ServedAdapter;

// What an adapter is to its guest and to everybody around it.
struct AdapterSetup {
  device::AdapterConfig device;
  std::vector<verbs::Gid> addresses;  // the only ones it may bind besides those of its MAC; empty: any
  bool may_reach_natives = false;     // where its segment has a NativeRule
  std::string socket;
  SocketOwner owner;  // of its file
};

// Told when a VMM has connected or has left: the VM was powered on or off. Called on the shard from inside
// the adapter, which must not be destroyed then.
class ClientObserver {
 public:
  virtual ~ClientObserver() = default;
  virtual void on_client(const ServedAdapter& adapter, bool connected) = 0;
};

class ServedAdapter final : private shard::FdHandler, private shard::Pollable {
 public:
  // All are borrowed and outlive this; `observer` and `reaper` may be null. Errors: as
  // device::Adapter::create() and vfio_user::Server::listen(); the socket file is gone again then.
  static Result<std::unique_ptr<ServedAdapter>> create(const AdapterSetup& setup,
                                                       fabric::Switch& fabric_switch, shard::Loop& loop,
                                                       const Clock& clock, ClientObserver* observer = nullptr,
                                                       Reaper* reaper = nullptr);
  ~ServedAdapter() override;
  ServedAdapter(const ServedAdapter&) = delete;
  ServedAdapter& operator=(const ServedAdapter&) = delete;

  // Serves clients from now on, those included that have connected already. Once. Errors: epoll's errno.
  Result<void> start();

  // The adapter's link to the switch: the guest gets PORT_ACTIVE or PORT_ERR, and nothing passes while it is
  // down.
  void set_link(bool up);

  // Faults into what the adapter sends, until they or the adapter are removed. False: it has some already.
  // From a task of the loop.
  [[nodiscard]] bool inject(std::shared_ptr<AdapterFault> fault);
  void stop_injecting();
  AdapterFault* fault() const { return fault_.get(); }  // null: none

  // As vfio_user::Server's.
  void refuse_clients(std::string why) { server_->refuse_clients(std::move(why)); }
  bool has_client() const { return server_->session_fd() >= 0; }

  const std::string& socket() const { return server_->path(); }
  const device::Adapter& adapter() const { return *adapter_; }
  const fabric::Port& port() const { return port_; }
  capture::Tap& tap() { return tap_; }
  const verbs::Engine& engine() const { return adapter_->engine(); }
  verbs::Engine::QpPage list_qps_from(std::uint32_t first) const {
    return adapter_->engine().list_qps_from(first);
  }

 private:
  ServedAdapter(const AdapterSetup& setup, fabric::Switch& fabric_switch, shard::Loop& loop,
                const Clock& clock, ClientObserver* observer);

  void on_fd_ready(int fd, shard::Readiness ready) override;
  bool run(Instant now) override;
  void on_time(Instant now) override;
  Instant next_deadline() const override {
    return std::min(
        {adapter_->next_deadline(), server_->accept_again_at(), server_->next_deadline(), held_until_});
  }
  bool polls() const override { return adapter_->polls(); }
  std::string what() const override { return "adapter " + port_.name(); }
  void follow_connection();
  void watch_listener();
  void watch_connection();
  void unwatch_connection();
  shard::Interest interest() const;
  void hold_if_over_rate();

  shard::Loop& loop_;
  const Clock& clock_;
  ClientObserver* const observer_;
  fabric::Port port_;
  capture::Tap tap_{port_};
  std::shared_ptr<AdapterFault> fault_;  // null: none
  std::unique_ptr<device::Adapter> adapter_;
  std::unique_ptr<vfio_user::Server> server_;
  bool started_ = false;
  bool had_client_ = false;
  bool listener_watched_ = false;
  int watched_fd_ = -1;  // the client's, as the loop knows it
  shard::Interest watched_for_ = shard::Interest::kRead;
  Instant held_until_ =
      Instant::never();  // its client waits, as the adapter is over its rate; never: it does not
};

}  // namespace pvrdma::adapters
