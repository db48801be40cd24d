#include "transport/hca/hca.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "transport/hca/hca_impl.h"
#include "transport/hca/pipe.h"
#include "transport/peer_name.h"

namespace pvrdma::transport {

using hca::HostPipes;
using hca::Pipe;
using hca::PipeEnd;
using wire::GoodbyeReason;

namespace {

class HcaPath final : public verbs::Path {
 public:
  HcaPath(std::shared_ptr<HostPipes> pipes, hca::HcaShared& shared, std::uint32_t lends_from,
          const verbs::Engine* sender, SegmentId segment, Traffic& traffic)
      : Path(false, lends_from),
        pipes_(std::move(pipes)),
        errors_(shared.errors),
        sender_(sender),
        traffic_(traffic),
        segment_(segment) {}

  std::string trouble() const override {
    return pipes_->requests() != nullptr ? "" : "the HCAs have no pipe to the peer's host";
  }
  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override {
    Pipe* const pipe = pipes_->requests();
    return pipe != nullptr ? pipe->room(wanted) : 0;
  }
  std::uint32_t room_to_ask(std::uint32_t wanted, Instant now) override {
    return room(1, now) == 0 ? 0 : std::min(wanted, hca::kReadBytesMax);
  }
  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    traffic_.count(payload);
    Pipe* const pipe = pipes_->requests();
    if (pipe == nullptr) return;
    if (request.op == verbs::RequestOp::kRead && request.bytes >= lends_from() && sender_ != nullptr)
      pipe->expect_loan(*sender_, segment_, request, now);
    pipe->send(segment_, request, payload, now);
  }
  bool lend_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    Pipe* const pipe = pipes_->requests();
    if (pipe == nullptr || sender_ == nullptr || !pipe->lend(*sender_, segment_, request, payload, now))
      return false;
    traffic_.count(payload);
    return true;
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    traffic_.count(payload);
    Pipe* const pipe = pipes_->answers();
    if (pipe == nullptr || !pipe->send(segment_, response, payload, now)) ++errors_.responses_dropped;
  }
  bool lend_response(const verbs::Response& response, std::uint32_t rkey, const guestmem::SpanList& payload,
                     Instant /*now*/) override {
    Pipe* const pipe = pipes_->answers();
    if (pipe == nullptr || !pipe->lend(segment_, response, rkey, payload)) return false;
    traffic_.count(payload);
    return true;
  }

 private:
  const std::shared_ptr<HostPipes> pipes_;
  HcaErrors& errors_;  // borrowed, as the next two
  const verbs::Engine* const sender_;
  Traffic& traffic_;
  const SegmentId segment_;
};

}  // namespace

bool Hca::Impl::run(Instant now) {
  bool more = has_incoming.load(std::memory_order_relaxed);
  if (more) take_incoming();
  if (news) {
    more = true;
    act_on(*std::exchange(news, std::nullopt), now);
  }
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
      for (const auto& [id, entry] : hosts) entry->turn(now, options.lanes);
    } catch (const std::bad_alloc&) {  // the next turn continues
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

// A deadline can only move later between two calls; check_at() reports the exceptions.
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

Hca::Hca(HcaOptions options, shard::Loop& loop, const Clock& clock, Inbound& inbound)
    : impl_(std::make_shared<Impl>(std::move(options), loop, clock, inbound)) {
  impl_->self = impl_;
  if (!impl_->options.refused.empty()) impl_->trouble = impl_->options.refused;
  loop.add(*impl_);
}

Hca::~Hca() {
  const Instant now = impl_->shared.clock.now();
  for (const auto& [id, entry] : impl_->hosts) {
    try {
      entry->close(GoodbyeReason::kStopping, "the daemon stops", now);
    } catch (const std::bad_alloc&) {  // for the reason that is shown; the goodbye has been said
    }
  }
  impl_->shared.station.reset();
  impl_->show_station();
  impl_->hosts.clear();
  impl_->end_incoming();
  impl_->release_device();
  impl_->close_device();
  impl_->loop.remove(*impl_);
}

void Hca::configure(const HcaSettings& settings) {
  if (impl_->is_configured && settings == impl_->settings) return;
  const Instant now = impl_->shared.clock.now();
  const bool again = !std::exchange(impl_->is_configured, false);
  const bool other_device = again || settings.device != impl_->settings.device;
  for (const HcaPeer& peer : settings.peers) impl_->pipes(peer.id);
  impl_->settings = settings;
  if (!other_device) {
    impl_->announce(now);
  } else if (impl_->options.refused.empty()) {
    impl_->drop_device(settings.device.empty() ? "this host has no active HCA" : "the device is not open yet",
                       now);
    impl_->open_device(now);
  }
  impl_->is_configured = true;
}

Result<hca::PipeAnswer> Hca::answer(const std::string& host, const hca::PipeOffer& offer) {
  if (const auto defect = hca::defect_of(offer); !defect.empty())
    return fail(EPROTO, fmt::format("its offer is invalid: {}", defect));
  std::shared_ptr<const hca::Station> here;
  {
    const std::lock_guard lock(impl_->station_mutex);
    here = impl_->station;
  }
  if (here == nullptr) return fail(EHOSTUNREACH, "its HCA is not active");
  const auto peer = std::ranges::find_if(
      here->peers, [&](const HcaPeer& each) { return each.name == host && each.shard == offer.from_shard; });
  if (peer == here->peers.end())
    return fail(EACCES, fmt::format("{} is not one of its HCA peers", peer_name(host, offer.from_shard)));
  const auto gids = hca::choose_gids(offer.gids, here->gids);
  if (!gids) return fail(EADDRNOTAVAIL, "the hosts' HCAs have no GID of the same family");
  auto end = PipeEnd::make(here->nic, here->mtu);
  if (!end) return Failure(std::move(end).error());
  if (auto done = (*end)->connect(gids->acceptor, gids->dialler, offer.end); !done)
    return Failure(std::move(done).error());
  const hca::PipeAnswer answer{.end = (*end)->here(), .dialler = gids->dialler, .acceptor = gids->acceptor};
  impl_->pass_on(peer->id, *std::move(end));
  return answer;
}

// An older end of that peer is destroyed here.
void Hca::Impl::pass_on(HostId peer, std::unique_ptr<PipeEnd> end) {
  Arrivals made;
  made.emplace(peer, std::move(end));
  leave([&](Incoming& all) {
    if (const auto waits = all.arrivals.find(peer); waits != all.arrivals.end())
      std::swap(waits->second, made.begin()->second);
    else
      all.arrivals.merge(made);
  });
}

void Hca::Impl::take_incoming() {
  std::list<std::unique_ptr<JobResult>> results;
  Arrivals arrivals;
  {
    const std::lock_guard lock(incoming_mutex);
    has_incoming.store(false, std::memory_order_relaxed);
    results.swap(incoming->results);
    arrivals.swap(incoming->arrivals);
  }
  for (auto& result : results) {
    or_later([&] { result->task(); });
    bury(std::move(result));
  }
  for (auto& [peer, end] : arrivals) {
    if (const auto found = hosts.find(peer); found != hosts.end() && end->nic() == nic)
      or_later([&] { found->second->adopt(std::move(end), shared.clock.now()); });
    else
      bury(std::move(end));
  }
}

void Hca::Impl::end_incoming() {
  std::unique_ptr<Incoming> left;
  {
    const std::lock_guard lock(incoming_mutex);
    left.swap(incoming);
  }
  bury(std::move(left));
}

const Counters& Hca::counters() const {
  return impl_->shared.counters;
}

void Hca::open(const Place& place, const verbs::Connection& /*connection*/, Traffic& traffic,
               verbs::PathSlot& slot) {
  slot.open<HcaPath>(impl_->pipes(place.host).use(impl_->shared.clock.now()), impl_->shared,
                     impl_->options.lends_from, place.sender, place.segment, traffic);
}

bool Hca::send_datagram(const Place& place, const verbs::Datagram& datagram,
                        const guestmem::SpanList& payload, Traffic& traffic, Instant now) {
  traffic.count(payload);
  HostPipes& pipes = impl_->pipes(place.host);
  pipes.need(now);
  Pipe* const pipe = pipes.requests();
  if (pipe == nullptr || !pipe->send(place.segment, datagram, payload, now))
    ++impl_->shared.errors.datagrams_dropped;
  return pipe == nullptr || pipe->broken() || pipe->room(1) != 0;
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
  if (entry->second->rests()) return {};
  const std::string& why = entry->second->trouble();
  return why.empty() ? "a pipe is being made" : why;
}

void Hca::prepare(HostId host) {
  if (const auto entry = impl_->hosts.find(host); entry != impl_->hosts.end()) entry->second->prepare();
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
    return fmt::format("long payload of {} is sent in pieces: {}", vm, memory.trouble);
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
    states.push_back({peer.name, pipes.is_up(), pipes.is_up() ? 1U : 0U, pipes.falls(), trouble(peer.id)});
  }
  return states;
}

}  // namespace pvrdma::transport
