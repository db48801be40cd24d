// The RDMA NIC that an Hca uses: opening it, reopening it after a failure, its port and its GIDs.
#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "base/log.h"
#include "transport/hca/hca_impl.h"

namespace pvrdma::transport {

using hca::Nic;

void Hca::Impl::act_on(News told, Instant now) {
  or_later([&] {
    switch (told) {
      case News::kChanged:
        return ask_port();
      case News::kPortDown:
        port.active = false;
        announce(now);
        return ask_port();
      case News::kGone:
        open_at = now + kReopenPause;
        return drop_device(fmt::format("RDMA device {} has failed", settings.device), now);
    }
  });
}

void Hca::Impl::open_device(Instant now) {
  if (grave != nullptr) drop_device("the device is being reopened", now);
  open_at = Instant::never();
  if (settings.device.empty() || !options.refused.empty()) return;
  const std::uint64_t attempt = ++device_attempt;
  options.worker.post(shard::Task(
      [to = self.lock(), attempt, device = settings.device, open = options.open] {
        auto opened = open(device, *to);
        Result<hca::NicPort> found = fail("the device is not open");
        if (opened) found = (*opened)->port();
        come_back(to, [attempt, opened = std::move(opened), found = std::move(found),
                       its_grave = std::make_unique<Grave>()](Impl& impl) mutable {
          impl.took_device(attempt, opened, std::move(found), std::move(its_grave));
        });
      },
      "opens an RDMA device"));
}

// `opened` stays the caller's, who destroys it on the worker's thread.
void Hca::Impl::took_device(std::uint64_t attempt, const Result<std::shared_ptr<Nic>>& opened,
                            Result<hca::NicPort> found, std::unique_ptr<Grave> its_grave) {
  if (attempt != device_attempt) return;
  const Instant now = shared.clock.now();
  const auto failed = [&](const std::string& why) {
    trouble = why;
    if (std::exchange(noted_trouble, why) != why) log::warn("hca: {}; trying again", why);
    open_at = now + kReopenPause;
    announce(now);
  };
  if (!opened) return failed(opened.error().message);
  if (!found) return failed(found.error().message);
  nic = *opened;
  noted_trouble.clear();
  const auto fds = nic->event_fds();
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (auto watched = loop.watch(fds[i], shard::Interest::kRead, *this); !watched) {
      while (i != 0) loop.unwatch(fds[--i]);
      nic.reset();
      return failed(watched.error().message);
    }
  }
  grave = std::move(its_grave);
  use_port(*std::move(found));
  nic->take_events();  // events from before the watch
}

void Hca::Impl::drop_device(const std::string& why, Instant now) {
  trouble = why;
  release_device();
  announce(now);
  close_device();
}

void Hca::Impl::release_device() {
  ++device_attempt;
  port = {};
  news.reset();
  if (nic == nullptr) return;
  for (const int fd : nic->event_fds()) loop.unwatch(fd);
  grave->nic = std::move(nic);
}

// Once no pipe uses the device.
void Hca::Impl::close_device() {
  memories.clear();  // no QP accesses them any more
  if (grave != nullptr) bury(std::move(grave));
}

void Hca::Impl::work(std::function<void()> job, std::function<void()> then) {
  options.worker.post(shard::Task(
      [to = self, job = std::move(job), then = std::move(then)] {
        job();
        come_back(to, [then](Impl&) { then(); });
      },
      "a job for the RDMA NIC"));
}

std::shared_ptr<hca::GuestMemory> Hca::Impl::memory_of(const verbs::Engine& engine) {
  if (const auto found = memories.find(&engine); found != memories.end()) return found->second;
  if (nic == nullptr) return nullptr;
  auto made = std::make_shared<hca::GuestMemory>(nic, engine.memory(), *this);
  memories.emplace(&engine, made);
  return made;
}

void Hca::Impl::give_up_device() {
  open_at = Instant{};
  shared.check_at(open_at);
}

void Hca::Impl::ask_port() {
  if (nic == nullptr) return;
  options.worker.post(shard::Task(
      [to = self, asked = nic] {
        come_back(to, [asked = asked.get(), found = asked->port()](Impl& impl) mutable {
          impl.took_port(asked, std::move(found));
        });
      },
      "queries an RDMA device's port"));
}

void Hca::Impl::took_port(const Nic* asked, Result<hca::NicPort> found) {
  if (asked != nic.get() || nic == nullptr) return;
  if (!found) {
    drop_device(found.error().message, shared.clock.now());
    open_at = shared.clock.now() + kReopenPause;
    return;
  }
  use_port(*std::move(found));
}

void Hca::Impl::use_port(hca::NicPort found) {
  port = std::move(found);
  announce(shared.clock.now());
}

void Hca::Impl::show_station() {
  std::shared_ptr<const hca::Station> old = shared.station;
  const std::lock_guard lock(station_mutex);
  station.swap(old);
}

// Publishes the current state to the pipes and to the threads that call answer().
void Hca::Impl::announce(Instant now) {
  auto made = std::make_shared<hca::Station>();
  made->nic = nic;
  made->mtu = port.mtu;
  made->gids = hca::usable_gids(port.gids, settings.tagged);
  made->peers = settings.peers;
  if (nic != nullptr) {
    trouble.clear();
    if (!port.active) trouble = fmt::format("port 1 of RDMA device {} is down", nic->name());
    if (port.active && made->gids.empty())
      trouble = fmt::format(
          "RDMA device {} has no GID of RoCE v2 that is link-local or the tagged VMkernel "
          "adapter's",
          nic->name());
  }
  const bool works = trouble.empty();
  shared.station = works ? std::move(made) : nullptr;
  show_station();
  for (const auto& [id, entry] : hosts) {
    const auto peer = std::ranges::find(settings.peers, id, &HcaPeer::id);
    const bool is_peer = peer != settings.peers.end();
    const std::string denied = !is_peer ? "the two hosts do not both have an active HCA" : trouble;
    if (!works) entry->break_off(denied, now);
    entry->configure(is_peer ? *peer : entry->peer(), denied, now);
  }
  shared.attention = true;
}

}  // namespace pvrdma::transport
