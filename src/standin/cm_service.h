// CmService: the adapter's connection manager with its queue pair 1: carries its MADs, and gives its events
// to the rdma_cm files of programs.
//
// Thread: one at a time; blocks until the device has answered.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>

#include "cm/manager.h"
#include "standin/adapter.h"
#include "standin/gsi_port.h"

namespace pvrdma::standin {

class CmFile;

class CmService {
 public:
  // `adapter` is borrowed and outlives the service.
  static Result<std::unique_ptr<CmService>> create(Adapter& adapter);

  cm::Manager& manager() { return manager_; }
  Adapter& adapter() { return adapter_; }

  // A number for one more process.
  cm::Program add_program() { return next_program_++; }

  // Null `file`: no program has the id (any more).
  void set_owner(cm::Handle id, CmFile* file);
  CmFile* owner(cm::Handle id) const;

  // MADs have arrived.
  void take_datagrams();
  void run_timers();
  Instant deadline() const { return std::min(manager_.deadline(), look_again_); }
  // Sends what the manager has to send, as far as the queue pair has room, and gives its events to the files.
  void flush();

 private:
  void send_waiting();

  CmService(Adapter& adapter, std::unique_ptr<GsiPort> gsi, cm::Options options)
      : adapter_(adapter), gsi_(std::move(gsi)), manager_(std::move(options)) {}

  Adapter& adapter_;
  std::unique_ptr<GsiPort> gsi_;
  cm::Manager manager_;
  std::deque<cm::Datagram> unsent_;        // wait for room in the queue pair
  std::vector<cm::Datagram> unresolved_;   // wait until the kernel knows their receivers' MACs
  Instant look_again_ = Instant::never();  // at unresolved_
  cm::Program next_program_ = 0;
  std::unordered_map<cm::Handle, CmFile*> owners_;  // borrowed
};

}  // namespace pvrdma::standin
