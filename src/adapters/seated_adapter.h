// SeatedAdapter: an adapter with the seat of its VMM, on a shard's loop.
//
// A client whose adapter is over its rate of commands or doorbells is not read until that is paid for: its
// vCPUs wait, nobody else does.
//
// Life: made with its adapter, then given its seat, once. The seat goes before it; what the seat's options
// call (unwatch()) is this.
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
  // `loop` and `clock` are borrowed. `record`: the adapter's; null: nothing is noted of its client.
  SeatedAdapter(std::unique_ptr<device::Adapter> adapter, std::unique_ptr<ClientRecord> record,
                shard::Loop& loop, const Clock& clock);
  ~SeatedAdapter() override;
  SeatedAdapter(const SeatedAdapter&) = delete;
  SeatedAdapter& operator=(const SeatedAdapter&) = delete;

  void sit(vfio_user::Seat& seat) { seat_ = &seat; }
  // Called after whatever may have ended the session. Must not destroy this.
  void on_followed(std::function<void()> followed) { followed_ = std::move(followed); }

  device::Adapter& adapter() { return *adapter_; }
  const device::Adapter& adapter() const { return *adapter_; }
  ClientRecord* record() { return record_.get(); }
  // Whose the client's messages are.
  vfio_user::Handler& handler() {
    return record_ != nullptr ? static_cast<vfio_user::Handler&>(*record_) : *adapter_;
  }
  vfio_user::Seat& seat() { return *seat_; }
  bool has_client() const { return seat_->fd() >= 0; }

  // As shard::Pollable's.
  bool run(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const {
    return std::min({adapter_->next_deadline(), seat_->next_deadline(), held_until_});
  }

  // Holds its client where it is over its rate, and watches the socket as the seat is now: after whatever was
  // done with the seat.
  void follow();
  // The socket is about to be closed.
  void unwatch();

  // As device::Adapter's. When it outlives its client no longer, the end of one that has gone is dealt with.
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
  std::function<void()> followed_;
  vfio_user::Seat* seat_ = nullptr;  // borrowed
  int watched_fd_ = -1;              // the client's, as the loop knows it
  shard::Interest watched_for_ = shard::Interest::kRead;
  Instant held_until_ =
      Instant::never();  // its client waits, as the adapter is over its rate; never: it does not
};

}  // namespace pvrdma::adapters
