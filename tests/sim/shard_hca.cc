#include "sim/shard_hca.h"

#include <utility>

#include "support/must.h"

namespace pvrdma::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using transport::hca::NicUser;

Nics::Nics(std::uint64_t seed, const Clock& clock)
    : network(seed + 1, clock), loop_(test::must(shard::Loop::create({}, clock))) {
  loop_->add(network);
  // Slow NICs leave time for events in the meantime.
  network.set_delay(microseconds(seed % 2 == 0 ? 20 : 400));
  network.set_patience(milliseconds(2));
}

Nics::~Nics() {
  loop_->remove(network);
}

Result<transport::hca::PipeAnswer> ShardHca::Introducer::introduce(const std::string& host,
                                                                   const transport::hca::PipeOffer& offer) {
  auto answer = inner_.introduce(host, offer);
  if (const auto waker = nics_.wakers.find({host, offer.shard}); waker != nics_.wakers.end()) waker->second();
  return answer;
}

ShardHca::ShardHca(Nics& nics, const Where& where, shard::Loop& loop, const Clock& clock,
                   fabric::Fabric& fabric, const HostTransport& tcp, std::function<void()> wake)
    : nics_(nics), where_(where), loop_(loop), fabric_(fabric), introducer_(nics, where.host_name()) {
  verbs::Gid gid{{0xfe, 0x80}};
  gid.bytes[15] = static_cast<std::uint8_t>(where.index + 1);
  nics.network.add(where.device(), where.index % 2 == 0 ? transport::hca::kConnectX5 : transport::hca::kE810,
                   {gid});
  loop.add(worker_);
  transport::HcaOptions options{
      .open = [&network = nics.network](const std::string& device,
                                        NicUser& user) { return network.open(device, user); },
      .introducer = introducer_,
      .worker = worker_,
      .lanes =
          [&tcp](transport::HostId host) {
            return tcp.is_up(host) ? transport::hca::LaneState::kUp : transport::hca::LaneState::kDown;
          },
      .times = {.proof_first = milliseconds(1),
                .proof_max = milliseconds(8),
                .bulk_pause_first = microseconds(100),
                .bulk_pause_max = milliseconds(1)},
      .lends_from = where.index % 3 == 2 ? 8U * 1024 : 1U,
      .shard = where.number()};
  hca_ = std::make_unique<transport::Hca>(std::move(options), loop, clock, fabric);
  const std::pair key{where.host_name(), where.number()};
  nics.book.hosts[key] = hca_.get();
  nics.wakers[key] = std::move(wake);
  fabric.use(*hca_);
}

ShardHca::~ShardHca() {
  const std::pair key{where_.host_name(), where_.number()};
  nics_.book.hosts.erase(key);
  nics_.wakers.erase(key);
  fabric_.drop(fabric::PathKind::kHca);
  hca_.reset();
  while (worker_.run({})) {
  }
  loop_.remove(worker_);
}

void ShardHca::configure(const fabric::View& view) {
  transport::HcaSettings settings{.device = where_.device()};
  for (const fabric::RemoteHost& other : view.hosts) {
    if (other.path != fabric::PathKind::kHca) continue;
    const std::uint32_t shard = (other.id.value - LaneNetwork::id_of(0).value) % where_.shards_of_each;
    settings.peers.push_back(
        {other.id, other.name, transport::ShardNumber(static_cast<std::uint16_t>(shard))});
  }
  hca_->configure(settings);
}

void ShardHca::prepare(const fabric::View& view) {
  for (const fabric::RemoteHost& other : view.hosts) hca_->prepare(other.id);
}

}  // namespace pvrdma::sim
