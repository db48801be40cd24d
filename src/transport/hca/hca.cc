#include "transport/hca/hca.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "base/log.h"
#include "transport/hca/hca_shared.h"
#include "transport/hca/host_pipes.h"
#include "transport/hca/pipe.h"
#include "transport/hca/worker.h"

namespace pvrdma::transport {

using hca::HostPipes;
using hca::Nic;
using hca::Pipe;
using hca::PipeEnd;
using wire::GoodbyeReason;

namespace {

constexpr Duration kReopenPause = std::chrono::seconds(5);

class HcaPath final : public verbs::Path {
 public:
  HcaPath(HostPipes& pipes, hca::HcaShared& shared, std::uint32_t lends_from, const verbs::Engine* sender,
          SegmentId segment, Traffic& traffic)
      : Path(false, lends_from),
        pipes_(pipes),
        errors_(shared.errors),
        sender_(sender),
        traffic_(traffic),
        segment_(segment) {}

  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override {
    Pipe* const pipe = pipes_.requests();
    return pipe != nullptr ? pipe->room(wanted) : 0;
  }
  std::uint32_t room_to_ask(std::uint32_t wanted, Instant now) override {
    return room(1, now) == 0 ? 0 : std::min(wanted, hca::kReadBytesMax);
  }
  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    traffic_.count(payload);
    Pipe* const pipe = pipes_.requests();
    if (pipe == nullptr) return;
    if (request.op == verbs::RequestOp::kRead && request.bytes >= lends_from() && sender_ != nullptr)
      pipe->expect_loan(*sender_, segment_, request, now);
    pipe->send(segment_, request, payload, now);
  }
  bool lend_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    Pipe* const pipe = pipes_.requests();
    if (pipe == nullptr || sender_ == nullptr || !pipe->lend(*sender_, segment_, request, payload, now))
      return false;
    traffic_.count(payload);
    return true;
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    traffic_.count(payload);
    Pipe* const pipe = pipes_.answers();
    if (pipe == nullptr || !pipe->send(segment_, response, payload, now)) ++errors_.responses_dropped;
  }
  bool lend_response(const verbs::Response& response, std::uint32_t rkey, const guestmem::SpanList& payload,
                     Instant /*now*/) override {
    Pipe* const pipe = pipes_.answers();
    if (pipe == nullptr || !pipe->lend(segment_, response, rkey, payload)) return false;
    traffic_.count(payload);
    return true;
  }

 private:
  HostPipes& pipes_;  // borrowed, as the next three
  HcaErrors& errors_;
  const verbs::Engine* const sender_;
  Traffic& traffic_;
  const SegmentId segment_;
};

}  // namespace

struct Hca::Impl final : shard::Pollable, shard::FdHandler, hca::NicUser, hca::HcaServices {
  Impl(HcaOptions the_options, shard::Loop& the_loop, const Clock& clock, Inbound& inbound)
      : shared(*this, inbound, clock, the_options.times), options(std::move(the_options)), loop(the_loop) {}

  // Results of the worker's jobs come back to whoever is still there.
  template <typename Then>
  static void come_back(const std::weak_ptr<Impl>& to, shard::Loop& loop, Then then) {
    static_cast<void>(loop.post(shard::Task(
        [to, then = std::move(then)]() mutable {
          if (const auto impl = to.lock(); impl != nullptr && !impl->is_over)
            impl->or_later([&] { then(*impl); });
        },
        "news of the RDMA NIC")));
  }

  // Does it. Without memory the device is opened anew, some seconds later.
  template <typename Action>
  void or_later(Action action) {
    try {
      action();
    } catch (const std::bad_alloc&) {
      open_at = shared.clock.now() + kReopenPause;
    }
  }

  HostPipes& pipes(HostId id) {
    if (const auto found = hosts.find(id); found != hosts.end()) return *found->second;
    shared.make_room(4 * hosts.size() + 8);
    return *hosts.emplace(id, std::make_unique<HostPipes>(shared, options.introducer, id)).first->second;
  }

  // Shard's turn.
  bool run(Instant now) override;
  void on_time(Instant now) override;
  Instant next_deadline() const override {
    if (shared.attention || !shared.active.empty() || !shared.unflushed.empty()) return Instant{};
    return std::min(shared.next_check, open_at);
  }
  bool polls() const override { return false; }
  void on_fd_ready(int, shard::Readiness) override { nic->take_events(); }
  std::string what() const override { return "the pipes to other hosts"; }
  void flush_all(Instant now);

  // Device.
  void on_news(News news) override;
  void open_device(Instant now);
  void took_device(std::uint64_t attempt, Result<std::shared_ptr<Nic>> opened, Result<hca::NicPort> found);
  void drop_device(const std::string& why, Instant now);
  void ask_port();
  void took_port(const Nic* asked, Result<hca::NicPort> found);
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
  bool is_over = false;
  HcaSettings settings;
  bool is_configured = true;  // false: there was no memory for all of the newest settings
  std::map<HostId, std::unique_ptr<HostPipes>> hosts;
  std::map<const verbs::Engine*, std::shared_ptr<hca::GuestMemory>> memories;

  std::shared_ptr<Nic> nic;  // null: none is open
  hca::NicPort port;
  std::string trouble = "this host has no active HCA";  // of the device; empty: it works
  std::uint64_t device_attempt = 0;
  Instant open_at = Instant::never();

  std::mutex station_mutex;
  std::shared_ptr<const hca::Station> station;  // guarded: the newest of `shared`, for other threads
};

bool Hca::Impl::run(Instant now) {
  bool more = false;
  if (!shared.active.empty()) {
    shared.polled.swap(shared.active);
    for (Pipe* pipe : shared.polled) more = pipe->run(now) || more;
    shared.polled.clear();
  }
  flush_all(now);
  if (shared.attention) {
    more = true;
    shared.attention = false;
    try {
      for (const auto& [id, entry] : hosts) entry->turn(now, options.may_ask(id));
    } catch (const std::bad_alloc&) {  // what is left to do is done in the next turn
      shared.attention = true;
    }
    flush_all(now);
  }
  return more;
}

void Hca::Impl::flush_all(Instant now) {
  for (Pipe* pipe : shared.unflushed) pipe->flush(now);
  shared.unflushed.clear();
}

// Deadlines only move back between two calls, except where check_at() was told.
void Hca::Impl::on_time(Instant now) {
  shared.next_check = Instant::never();
  if (now >= open_at) {
    try {
      open_device(now);
    } catch (const std::bad_alloc&) {
      open_at = now + kReopenPause;
    }
  }
  Instant next = Instant::never();
  for (const auto& [id, entry] : hosts) {
    entry->on_time(now);
    next = std::min(next, entry->next_deadline());
  }
  shared.check_at(next);
}

void Hca::Impl::on_news(News news) {
  const Instant now = shared.clock.now();
  or_later([&] {
    switch (news) {
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
  if (nic != nullptr) drop_device("the device is opened anew", now);
  open_at = Instant::never();
  if (settings.device.empty() || !options.refused.empty()) return;
  const std::uint64_t attempt = ++device_attempt;
  options.worker.post(shard::Task(
      [to = self.lock(), attempt, device = settings.device, open = options.open, &back = loop] {
        auto opened = open(device, *to);
        Result<hca::NicPort> found = fail("the device is not open");
        if (opened) found = (*opened)->port();
        come_back(to, back,
                  [attempt, opened = std::move(opened), found = std::move(found)](Impl& impl) mutable {
                    impl.took_device(attempt, std::move(opened), std::move(found));
                  });
      },
      "opens an RDMA device"));
}

void Hca::Impl::took_device(std::uint64_t attempt, Result<std::shared_ptr<Nic>> opened,
                            Result<hca::NicPort> found) {
  if (attempt != device_attempt) return;
  const Instant now = shared.clock.now();
  const auto failed = [&](const std::string& why) {
    trouble = why;
    log::warn("hca: {}; trying again", why);
    open_at = now + kReopenPause;
    announce(now);
  };
  if (!opened) return failed(opened.error().message);
  if (!found) return failed(found.error().message);
  nic = *std::move(opened);
  for (const int fd : nic->event_fds()) {
    if (auto watched = loop.watch(fd, shard::Interest::kRead, *this); !watched) {
      for (const int each : nic->event_fds()) loop.unwatch(each);
      nic.reset();
      return failed(watched.error().message);
    }
  }
  use_port(*std::move(found));
  nic->take_events();  // what came before anybody watched
}

void Hca::Impl::drop_device(const std::string& why, Instant now) {
  ++device_attempt;
  trouble = why;
  port = {};
  const std::shared_ptr<Nic> gone = std::exchange(nic, nullptr);
  if (gone != nullptr) {
    for (const int fd : gone->event_fds()) loop.unwatch(fd);
  }
  announce(now);
  memories.clear();  // nobody reads or writes them any more
  // Behind all ends that were made by it.
  if (gone != nullptr) options.worker.post(shard::Task([gone] {}, "closes an RDMA device"));
}

void Hca::Impl::work(std::function<void()> job, std::function<void()> then) {
  options.worker.post(shard::Task(
      [to = self, job = std::move(job), then = std::move(then), &back = loop] {
        job();
        come_back(to, back, [then](Impl&) { then(); });
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
      [to = self, asked = nic, &back = loop] {
        come_back(to, back, [asked = asked.get(), found = asked->port()](Impl& impl) mutable {
          impl.took_port(asked, std::move(found));
        });
      },
      "asks for an RDMA device's port"));
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

// Tells everybody how it is now: those who answer, and the pipes.
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
    const std::string denied = !is_peer ? "the hosts have no active HCA in common" : trouble;
    if (!works) entry->break_off(denied, now);
    entry->configure(is_peer ? peer->name : entry->name(), denied, now);
  }
  shared.attention = true;
}

Hca::Hca(HcaOptions options, shard::Loop& loop, const Clock& clock, Inbound& inbound)
    : impl_(std::make_shared<Impl>(std::move(options), loop, clock, inbound)) {
  impl_->self = impl_;
  if (!impl_->options.refused.empty()) impl_->trouble = impl_->options.refused;
  loop.add(*impl_);
}

Hca::~Hca() {
  const Instant now = impl_->shared.clock.now();
  for (const auto& [id, entry] : impl_->hosts)
    entry->close(GoodbyeReason::kStopping, "the daemon stops", now);
  impl_->shared.station.reset();
  impl_->show_station();
  impl_->hosts.clear();
  impl_->memories.clear();
  impl_->is_over = true;
  impl_->drop_device("the daemon stops", now);
  impl_->loop.remove(*impl_);
}

void Hca::configure(const HcaSettings& settings) {
  if (impl_->is_configured && settings == impl_->settings) return;
  const Instant now = impl_->shared.clock.now();
  const bool again = !std::exchange(impl_->is_configured, false);
  const bool other_device = again || settings.device != impl_->settings.device;
  impl_->settings = settings;
  for (const HcaPeer& peer : settings.peers) impl_->pipes(peer.id);
  if (!other_device) {
    impl_->announce(now);
  } else if (impl_->options.refused.empty()) {
    impl_->drop_device(settings.device.empty() ? "this host has no active HCA" : "the device is not open yet",
                       now);
    impl_->open_device(now);
  }
  impl_->is_configured = true;
}

Result<hca::Answer> Hca::answer(const std::string& host, const hca::Offer& offer) {
  if (const auto defect = hca::defect_of(offer); !defect.empty())
    return fail(EPROTO, fmt::format("its offer is no good: {}", defect));
  std::shared_ptr<const hca::Station> here;
  {
    const std::lock_guard lock(impl_->station_mutex);
    here = impl_->station;
  }
  if (here == nullptr) return fail(EHOSTUNREACH, "its HCA is not active");
  const auto peer = std::ranges::find(here->peers, host, &HcaPeer::name);
  if (peer == here->peers.end())
    return fail(EACCES, fmt::format("host {} is none that it reaches by its HCA", host));
  const auto gids = hca::choose_gids(offer.gids, here->gids);
  if (!gids) return fail(EADDRNOTAVAIL, "the hosts' HCAs have no GID of the same family");
  auto end = PipeEnd::make(here->nic, here->mtu);
  if (!end) return Failure(std::move(end).error());
  if (auto done = (*end)->connect(gids->acceptor, gids->dialler, offer.end); !done)
    return Failure(std::move(done).error());
  const hca::Answer answer{.end = (*end)->here(), .dialler = gids->dialler, .acceptor = gids->acceptor};
  Impl::come_back(impl_->self, impl_->loop, [id = peer->id, made = *std::move(end)](Impl& impl) mutable {
    impl.pipes(id).adopt(std::move(made), impl.shared.clock.now());
  });
  return answer;
}

const Counters& Hca::counters() const {
  return impl_->shared.counters;
}

void Hca::open(const Place& place, const verbs::Connection& /*connection*/, Traffic& traffic,
               verbs::PathSlot& slot) {
  slot.open<HcaPath>(impl_->pipes(place.host), impl_->shared, impl_->options.lends_from, place.sender,
                     place.segment, traffic);
}

void Hca::send_datagram(const Place& place, const verbs::Datagram& datagram,
                        const guestmem::SpanList& payload, Traffic& traffic, Instant now) {
  traffic.count(payload);
  Pipe* const pipe = impl_->pipes(place.host).requests();
  if (pipe == nullptr || !pipe->send(place.segment, datagram, payload, now))
    ++impl_->shared.errors.datagrams_dropped;
}

bool Hca::is_up(HostId host) const {
  const auto entry = impl_->hosts.find(host);
  return entry != impl_->hosts.end() && entry->second->is_up();
}

std::string Hca::trouble(HostId host) const {
  const auto entry = impl_->hosts.find(host);
  if (entry == impl_->hosts.end()) return impl_->trouble;
  if (entry->second->is_up()) return {};
  if (!impl_->trouble.empty()) return impl_->trouble;
  const std::string& why = entry->second->trouble();
  return why.empty() ? "a pipe is being made" : why;
}

void Hca::stop(SegmentId segment, const verbs::Connection& connection) {
  for (const auto& [id, entry] : impl_->hosts) entry->stop(segment, connection);
}

void Hca::stop_all(const verbs::Engine& engine) {
  for (const auto& [id, entry] : impl_->hosts) entry->stop_all(engine);
}

void Hca::take_back(const verbs::Engine& engine, std::span<const std::byte> memory) {
  const auto found = impl_->memories.find(&engine);
  if (found == impl_->memories.end() || (!memory.empty() && !found->second->overlaps(memory))) return;
  stop_all(engine);
  if (memory.empty()) {
    impl_->memories.erase(found);
  } else {
    found->second->drop(memory);
  }
}

const HcaBulk& Hca::bulk() const {
  return impl_->shared.bulk;
}

HcaMemory Hca::memory(const verbs::Engine& engine) const {
  const auto found = impl_->memories.find(&engine);
  if (found == impl_->memories.end()) return {};
  const hca::GuestMemory& memory = *found->second;
  return {memory.bytes(), memory.pinned_bytes(), memory.trouble()};
}

std::string describe(const HcaMemory& memory, const std::string& vm) {
  constexpr int kMebibyte = 20;
  if (!memory.trouble.empty())
    return fmt::format("long payload of {} goes in pieces: {}", vm, memory.trouble);
  if (memory.pinned_bytes >= memory.bytes) return {};
  return fmt::format("memory of {} is being registered ({} of {} MiB)", vm, memory.pinned_bytes >> kMebibyte,
                     memory.bytes >> kMebibyte);
}

void Hca::flush(Instant now) {
  if (!impl_->shared.in_batch) impl_->flush_all(now);
}

Instant Hca::next_deadline() const {
  return impl_->next_deadline();
}

const std::string& Hca::device() const {
  return impl_->settings.device;
}

const std::string& Hca::device_trouble() const {
  return impl_->trouble;
}

const HcaErrors& Hca::errors() const {
  return impl_->shared.errors;
}

std::vector<HcaPeerState> Hca::peers() const {
  std::vector<HcaPeerState> states;
  for (const HcaPeer& peer : impl_->settings.peers) {
    const HostPipes& pipes = *impl_->hosts.at(peer.id);
    states.push_back({peer.id, peer.name, pipes.is_up(), trouble(peer.id), pipes.falls()});
  }
  return states;
}

}  // namespace pvrdma::transport
