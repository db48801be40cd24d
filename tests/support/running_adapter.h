// RunningAdapter: lets a shard's loop run an adapter, without the set that does so in the daemon.
// Thread: the loop's.
#pragma once

#include <string>

#include "device/adapter.h"
#include "shard/loop.h"

namespace pvrdma::test {

class RunningAdapter final : public shard::Pollable {
 public:
  // Both are borrowed and outlive it.
  RunningAdapter(shard::Loop& loop, device::Adapter& adapter) : loop_(loop), adapter_(adapter) {
    loop_.add(*this);
  }
  ~RunningAdapter() override { loop_.remove(*this); }
  RunningAdapter(const RunningAdapter&) = delete;
  RunningAdapter& operator=(const RunningAdapter&) = delete;

  bool run(Instant now) override { return adapter_.run(now); }
  void on_time(Instant now) override { adapter_.on_time(now); }
  Instant next_deadline() const override { return adapter_.next_deadline(); }
  bool polls() const override { return adapter_.polls(); }
  std::string what() const override { return "adapter " + adapter_.name(); }

 private:
  shard::Loop& loop_;
  device::Adapter& adapter_;
};

}  // namespace pvrdma::test
