#include "pvrdmad/shard_rig.h"

#include <new>
#include <utility>

#include "transport/hca/rdma.h"

namespace pvrdma::daemon {

ShardRig::ShardRig(transport::ShardNumber number, shard::Loop& loop, const Clock& clock,
                   fabric::HostGids& gids, fabric::FabricObserver* observer)
    : number_(number), loop_(loop), clock_(clock), fabric_(clock, gids, number, observer) {
  fabric_.use(local_);
}

Result<void> ShardRig::make_siblings(std::shared_ptr<transport::siblings::HostRings> rings) {
  auto siblings = transport::Siblings::create(std::move(rings), number_, loop_, fabric_);
  if (!siblings) return Failure(std::move(siblings).error());
  siblings_ = *std::move(siblings);
  fabric_.use(*siblings_);  // instead of `local_`
  return {};
}

Result<void> ShardRig::make_tcp(const transport::TcpOptions& options) {
  auto tcp = transport::Tcp::create(options, loop_, clock_, fabric_);
  if (!tcp) return Failure(std::move(tcp).error());
  tcp_ = *std::move(tcp);
  fabric_.use(*tcp_);
  return {};
}

Result<void> ShardRig::make_roce(const std::vector<control::RoceConfig>& links, const TotalBudgets& totals) {
  if (links.empty()) return {};
  roce_ = std::make_unique<transport::Roce>(
      fabric_, transport::RoceOptions{.connections_max = totals.native_connections});
  loop_.add(*roce_);
  links_ = links;
  for (const control::RoceConfig& link : links_) {
    const auto number = roce_->add_link([&](transport::roce::FrameHandler& handler) {
      return transport::roce::open_link(link.link, loop_, clock_, handler);
    });
    if (!number) return Failure(number.error());
    if (!link.dvs.empty()) continue;  // the cluster's view assigns its segment
    roce_->assign(*number, transport::SegmentId{});
    fabric_.segment({}).set_native(fabric::NativeRule{{}, link.peers});
  }
  fabric_.use(*roce_);
  return {};
}

void ShardRig::make_adapters(const std::vector<control::RoceConfig>& links, adapters::PowerObserver* power,
                             const Budgets& vm_budgets, verbs::HostAccount& account, Reaper& reaper,
                             adapters::Keeping* keeping, adapters::OffenceObserver* offences) {
  natives_ = std::make_unique<adapters::NativeLinks>(links);
  fabric_.watch_lenders(loop_.blame(), [offences](const std::string& adapter, Duration took) {
    if (offences != nullptr) offences->on_offence(adapter, took);
  });
  adapters_ = std::make_unique<adapters::AdapterSet>(fabric_, loop_, clock_, power, vm_budgets, &account,
                                                     &reaper, natives_.get(), keeping, offences);
}

void ShardRig::make_hca(transport::hca::Introducer& introducer, transport::hca::Worker& worker,
                        const std::string& refused) {
  transport::HcaOptions options{
      .open = transport::hca::open_rdma,
      .introducer = introducer,
      .worker = worker,
      .lanes =
          [tcp = tcp_.get()](transport::HostId host) {
            using enum transport::hca::LaneState;
            return tcp->is_up(host) ? kUp : tcp->trouble(host).empty() ? kRest : kDown;
          },
      .shard = number_,
      .refused = refused};
  hca_ = std::make_unique<transport::Hca>(std::move(options), loop_, clock_, fabric_);
  fabric_.use(*hca_);
}

Result<void> ShardRig::make_thread(std::optional<std::uint32_t> core) {
  auto thread = ShardThread::create(number_.value, loop_, core);
  if (!thread) return Failure(std::move(thread).error());
  thread_ = *std::move(thread);
  return {};
}

// Hca's worker and introducer are the daemon's.
void ShardRig::end_serving() {
  adapters_.reset();
  if (siblings_ != nullptr) fabric_.drop(transport::PathKind::kLocal);
  siblings_.reset();
  fabric_.drop(transport::PathKind::kHca);
  fabric_.drop(transport::PathKind::kTcp);
  fabric_.drop(transport::PathKind::kRoce);
  if (roce_ != nullptr) loop_.remove(*roce_);
  hca_.reset();
}

void ShardRig::tell_works_again(ShardRig& other, transport::SegmentId segment,
                                fabric::HostGids::PortNumber port) {
  try {
    if (other.loop_.post({[&other, from = number_, segment, port] {
                            other.fabric_.on_works_again(from, segment, port, other.clock_.now());
                          },
                          "an adapter of another shard works again"}))
      return;
  } catch (const std::bad_alloc&) {
  }
  siblings_->have_all_repeated(other.number_);
}

bool ShardRig::take_lane(std::unique_ptr<transport::tcp::PassedLane> lane) {
  return loop_.post(
      shard::Task([this, lane = std::move(lane)]() mutable { tcp_->take(std::move(lane)); }, "a lane"));
}

// Configures the transports first, because the fabric's connections continue over them at once.
void ShardRig::apply(const cluster::ShardView& view) {
  tcp_->configure(view.tcp);
  if (hca_ != nullptr) hca_->configure(view.hca);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].dvs.empty()) continue;
    const auto dvs = view.switches.find(links_[i].dvs);
    roce_->assign(i, dvs != view.switches.end()
                         ? std::optional(transport::SegmentId{dvs->second, links_[i].vlan})
                         : std::nullopt);
  }
  fabric_.set_view(view.fabric);
  natives_->set_cluster(view.switches, view.fabric.natives);
  adapters_->set_wanted(view.adapters, view.adapters_of_host);
}

}  // namespace pvrdma::daemon
