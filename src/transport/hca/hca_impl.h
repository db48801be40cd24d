// Hca::Impl: the parts of an Hca. hca.cc has its turn and its public functions, hca_device.cc its device.
//
// Thread: shard-owned.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "shard/loop.h"
#include "transport/hca/guest_memory.h"
#include "transport/hca/hca.h"
#include "transport/hca/hca_services.h"
#include "transport/hca/hca_shared.h"
#include "transport/hca/host_pipes.h"
#include "transport/hca/worker.h"

namespace pvrdma::transport {

struct Hca::Impl final : shard::Pollable, shard::FdHandler, hca::NicUser, hca::HcaServices {
  static constexpr Duration kReopenPause = std::chrono::seconds(5);

  Impl(HcaOptions the_options, shard::Loop& the_loop, const Clock& clock, Inbound& inbound)
      : shared(*this, inbound, clock, the_options.times, the_options.shard),
        options(std::move(the_options)),
        loop(the_loop) {}

  // Called from a job of the worker: `then` takes its result on the shard, unless the Hca is gone by then.
  // What it does not take is destroyed on the worker's thread.
  template <typename Then>
  static void come_back(const std::weak_ptr<Impl>& to, Then then) {
    const auto impl = to.lock();
    if (impl == nullptr) return;
    std::list<std::unique_ptr<JobResult>> made;
    made.push_back(std::make_unique<JobResult>(
        shard::Task([then = std::move(then), &impl = *impl]() mutable { then(impl); })));
    impl->leave([&](Incoming& all) { all.results.splice(all.results.end(), made); });
  }

  // Runs `action`. If memory runs out, the device is reopened some seconds later.
  template <typename Action>
  void or_later(Action action) {
    try {
      action();
    } catch (const std::bad_alloc&) {
      open_at = shared.clock.now() + kReopenPause;
    }
  }

  hca::HostPipes& pipes(HostId id) {
    if (const auto found = hosts.find(id); found != hosts.end()) return *found->second;
    shared.make_room(4 * hosts.size() + 8);
    return *hosts.emplace(id, std::make_unique<hca::HostPipes>(shared, options.introducer, id)).first->second;
  }

  // Called by the shard's loop.
  bool run(Instant now) override;
  void on_time(Instant now) override;
  Instant next_deadline() const override {
    if (news || shared.attention || !shared.active.empty() || !shared.unflushed.empty()) return Instant{};
    return std::min(shared.next_check, open_at);
  }
  bool polls() const override { return false; }
  void on_fd_ready(int, shard::Readiness) override { nic->take_events(); }
  std::string what() const override { return "the pipes to other hosts"; }
  void flush_all(Instant now);

  // Device.
  struct Grave final : hca::Buried {
    std::shared_ptr<hca::Nic> nic;
  };
  void on_news(News told) override { news = std::max(news, std::optional(told)); }
  void act_on(News told, Instant now);
  void open_device(Instant now);
  void took_device(std::uint64_t attempt, const Result<std::shared_ptr<hca::Nic>>& opened,
                   Result<hca::NicPort> found, std::unique_ptr<Grave> its_grave);
  void drop_device(const std::string& why, Instant now);
  void release_device();
  void close_device();
  void ask_port();
  void took_port(const hca::Nic* asked, Result<hca::NicPort> found);
  void use_port(hca::NicPort found);
  void announce(Instant now);
  void show_station();

  // HcaServices.
  void bury(std::unique_ptr<hca::Buried> dead) override { options.worker.bury(std::move(dead)); }
  void work(std::function<void()> job, std::function<void()> then) override;
  std::shared_ptr<hca::GuestMemory> memory_of(const verbs::Engine& engine) override;
  void give_up_device() override;

  hca::HcaShared shared;
  const HcaOptions options;
  shard::Loop& loop;
  std::weak_ptr<Impl> self;
  HcaSettings settings;
  bool is_configured = true;  // false: memory ran out while the newest settings were applied
  std::map<HostId, std::unique_ptr<hca::HostPipes>> hosts;
  std::map<const verbs::Engine*, std::shared_ptr<hca::GuestMemory>> memories;

  std::shared_ptr<hca::Nic> nic;  // null: no device is open
  std::unique_ptr<Grave> grave;   // made with the device; has it once it was left and pipes may still use it
  std::optional<News> news;       // the gravest that the device has told, if the next turn has to act on it
  hca::NicPort port;
  std::string trouble = "this host has no active HCA";  // of the device; empty: it works
  std::string noted_trouble;                            // of opening the device, logged last
  std::uint64_t device_attempt = 0;
  Instant open_at = Instant::never();

  // What other threads leave for the shard. It does not go through the mailbox, which may be full.
  struct JobResult final : hca::Buried {
    explicit JobResult(shard::Task the_task) : task(std::move(the_task)) {}
    shard::Task task;
  };
  using Arrivals = std::map<HostId, std::unique_ptr<hca::PipeEnd>>;
  struct Incoming final : hca::Buried {
    std::list<std::unique_ptr<JobResult>> results;  // of the worker's jobs
    Arrivals arrivals;                              // pipes that peers have dialled, at most one of each
  };
  // Any thread: calls `add` with `incoming`, unless the Hca is gone. The shard takes the same lock, so `add`
  // neither allocates nor destroys.
  template <typename Add>
  void leave(Add add) {
    {
      const std::lock_guard lock(incoming_mutex);
      if (incoming == nullptr) return;
      add(*incoming);
      if (has_incoming.exchange(true, std::memory_order_relaxed)) return;
    }
    loop.wake();
  }
  // Any thread that may sleep.
  void pass_on(HostId peer, std::unique_ptr<hca::PipeEnd> end);
  void take_incoming();
  void end_incoming();

  std::mutex incoming_mutex;
  std::unique_ptr<Incoming> incoming = std::make_unique<Incoming>();  // guarded; null: the Hca is gone
  std::atomic<bool> has_incoming = false;                             // written under the lock

  std::mutex station_mutex;
  std::shared_ptr<const hca::Station> station;  // guarded: a copy of `shared.station` for other threads
};

}  // namespace pvrdma::transport
