// SeatedAdapter: an adapter with the seat of its VMM, on a shard's loop.
//
// If an adapter exceeds its rate of commands or doorbells, its client is not read until the rate permits it.
// So only that client's vCPUs wait.
//
// Life: made with its adapter, then given its seat, once. The seat is destroyed first; its options call
// unwatch() of this.
//
// Thread: shard-owned.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "adapters/client_record.h"
#include "base/time.h"
#include "device/adapter.h"
#include "shard/loop.h"
#include "vfio_user/seat.h"

namespace pvrdma::adapters {

class SeatedAdapter final : private shard::FdHandler {
 public:
  // `loop`, `clock` and `party` are borrowed. `record` belongs to the adapter; null: the client is not
  // recorded. What the adapter does, and what its client has it do, is `party`'s work.
  SeatedAdapter(std::unique_ptr<device::Adapter> adapter, std::unique_ptr<ClientRecord> record,
                shard::Loop& loop, const Clock& clock, Blame::Party& party);
  ~SeatedAdapter() override;
  SeatedAdapter(const SeatedAdapter&) = delete;
  SeatedAdapter& operator=(const SeatedAdapter&) = delete;

  void sit(vfio_user::Seat& seat) { seat_ = &seat; }
  // `followed` is called after anything that may have ended the session. It must not destroy this.
  void on_followed(std::function<void()> followed) { followed_ = std::move(followed); }

  device::Adapter& adapter() { return *adapter_; }
  const device::Adapter& adapter() const { return *adapter_; }
  ClientRecord* record() { return record_.get(); }
  // The handler of the client's messages.
  vfio_user::Handler& handler() {
    return record_ != nullptr ? static_cast<vfio_user::Handler&>(*record_) : *adapter_;
  }
  vfio_user::Seat& seat() { return *seat_; }
  bool has_client() const { return seat_->fd() >= 0; }

  // As in shard::Pollable.
  bool run(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const {
    if (is_suspended_) return adapter_->next_deadline();
    return std::min({adapter_->next_deadline(), seat_->next_deadline(), held_until_});
  }

  // Stops reading the client if it exceeds its rate, and watches the socket according to the seat's state.
  // Called after any use of the seat.
  void follow();
  // Called before the socket is closed.
  void unwatch();
  // While suspended, the client is neither read nor written, and its end is not noticed: it waits. follow()
  // goes on with it afterwards.
  void suspend_client(bool suspended);

  // As in device::Adapter. When the adapter no longer outlives its client, a client that has gone is handled.
  void outlive_client(bool outlives);

 private:
  void on_fd_ready(int fd, shard::Readiness ready) override;
  std::string what() const override { return "adapter " + adapter_->name(); }
  void watch();
  void hold_if_over_rate();
  bool survives();
  shard::Interest interest() const;

  const std::unique_ptr<device::Adapter> adapter_;
  const std::unique_ptr<ClientRecord> record_;
  shard::Loop& loop_;
  const Clock& clock_;
  Blame::Party& party_;
  std::function<void()> followed_;
  vfio_user::Seat* seat_ = nullptr;  // borrowed
  int watched_fd_ = -1;              // the client's socket that the loop watches
  shard::Interest watched_for_ = shard::Interest::kRead;
  bool is_suspended_ = false;
  Instant held_until_ =
      Instant::never();  // the client is not read until then, because of the rate; never: it is read
};

}  // namespace pvrdma::adapters
