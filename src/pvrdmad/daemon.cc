#include "pvrdmad/daemon.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "api/routes.h"
#include "base/log.h"
#include "control/store/store.h"
#include "pvrdmad/sandbox.h"
#include "transport/hca/rdma.h"
#include "transport/tcp/stream.h"

namespace pvrdma::daemon {

namespace {

std::unique_ptr<control::Store> make_store(const control::ClusterConfig& config) {
  if (const auto* etcd = std::get_if<control::EtcdConfig>(&config.store)) {
    return control::make_etcd_store(*etcd);
  }
  return control::make_sqlite_store(std::get<control::SqliteConfig>(config.store));
}

std::optional<tls::Files> tls_files(const control::ClusterConfig& config) {
  if (!config.tcp_tls) return std::nullopt;
  return tls::Files{config.tcp_tls->ca, config.tcp_tls->certificate, config.tcp_tls->key};
}

// For calls, which other threads than the shard make. Null: calls are plain.
Result<std::unique_ptr<tls::Context>> make_tls(const control::ClusterConfig& config) {
  const auto files = tls_files(config);
  return files ? tls::Context::mutual(*files) : std::unique_ptr<tls::Context>();
}

std::vector<snapshots::CounterGroup> sandbox_counters() {
  if (!is_confined()) return {};
  return {{"sandbox", {{"refused_calls", refused_calls()}}}};
}

}  // namespace

static_assert(api::kPvrdmaPort == transport::kTcpPort, "the ruleset opens the port that is used");

Result<std::unique_ptr<Daemon>> Daemon::create(const control::Config& config, const std::string& version,
                                               const control::Plane::StopAsked& stop_asked,
                                               keep::DescriptorStore* store) {
  std::unique_ptr<Daemon> daemon(new Daemon);
  auto reaper = Reaper::create();
  if (!reaper) return Failure(std::move(reaper).error());
  daemon->reaper_ = *std::move(reaper);
  auto loop = shard::Loop::create(
      {.spin = config.daemon.spin, .never_sleeps_while_polling = config.daemon.dedicated_core.has_value()},
      daemon->clock_);
  if (!loop) return Failure(std::move(loop).error());
  daemon->loop_ = *std::move(loop);
  if (store != nullptr)
    daemon->keeper_ = std::make_unique<adapters::Keeper>(*store, *daemon->loop_, daemon->clock_);
  if (config.cluster) {
    daemon->membership_ = std::make_unique<cluster::Membership>(
        *config.cluster, version, *daemon->loop_, daemon->clock_,
        [&daemon = *daemon](const cluster::ShardView& view) { daemon.apply(view); },
        daemon->keeper_ != nullptr ? daemon->keeper_->instance() : std::string());
  }
  daemon->fabric_ = std::make_unique<fabric::Fabric>(daemon->clock_, daemon->membership_.get());
  daemon->fabric_->use(daemon->local_);
  if (config.cluster) {
    if (auto made = daemon->make_tcp(*config.cluster); !made) return Failure(std::move(made).error());
  }
  if (auto made = daemon->make_roce(config.roce); !made) return Failure(std::move(made).error());
  daemon->natives_ = std::make_unique<adapters::NativeLinks>(config.roce);
  daemon->adapters_ = std::make_unique<adapters::AdapterSet>(
      *daemon->fabric_, *daemon->loop_, daemon->clock_, daemon->membership_.get(), config.budgets,
      daemon->reaper_.get(), daemon->natives_.get(), daemon->keeper_ ? &daemon->keeper_->keeping() : nullptr);
  if (daemon->keeper_ != nullptr) {
    // A member of a cluster learns later which VMs it has, so it takes back every kept adapter.
    daemon->adapters_->give_back(daemon->keeper_->given([&config](const std::string& name) {
      return config.cluster ||
             std::ranges::find(config.adapters, name, &control::AdapterConfig::name) != config.adapters.end();
    }));
  }
  for (const control::AdapterConfig& each : config.adapters) {
    auto added = daemon->adapters_->add_static(each);
    if (!added) return Failure(std::move(added).error().in("adapter " + each.name));
  }
  if (daemon->membership_ != nullptr) {
    auto connected = daemon->membership_->connect(make_store(*config.cluster), stop_asked);
    if (!connected) return Failure(std::move(connected).error());
    if (auto made = daemon->make_host_calls(*config.cluster); !made) return Failure(std::move(made).error());
    daemon->make_hca(*config.cluster);
  }
  daemon->snapshots_ = std::make_unique<snapshots::ShardSnapshots>(
      *daemon->loop_, *daemon->adapters_, *daemon->fabric_, daemon->tcp_.get(), daemon->hca_.get(),
      daemon->roce_.get(), sandbox_counters);
  daemon->make_controls(config.daemon, version);
  daemon->make_moves();
  auto api = api::ApiServer::listen(
      config.daemon.api_socket,
      {.version = version,
       .source = *daemon->snapshots_,
       .links = *daemon->adapter_links_,
       .captures = *daemon->captures_,
       .faults = *daemon->faults_,
       .upgrades = *daemon->upgrades_,
       .checkpoints = *daemon->checkpoints_,
       .hca_checker = daemon->nic_checks_,
       .plane = daemon->membership_ != nullptr ? daemon->membership_->plane() : nullptr,
       .motions = daemon->motions_.get()},
      config.api);
  if (!api) return Failure(std::move(api).error());
  daemon->api_ = *std::move(api);
  auto shard = ShardThread::create(*daemon->loop_, config.daemon.dedicated_core);
  if (!shard) return Failure(std::move(shard).error());
  daemon->shard_ = *std::move(shard);
  if (daemon->membership_ != nullptr) daemon->membership_->join();  // every socket is bound
  if (daemon->keeper_ != nullptr && daemon->membership_ != nullptr) {
    if (auto kept = daemon->keeper_->keep_instance(daemon->membership_->instance()); !kept)
      log::warn("this daemon's next start must wait until its lease ends: {}", kept.error().message);
  }
  return daemon;
}

Result<void> Daemon::make_tcp(const control::ClusterConfig& config) {
  incoming_calls_ = std::make_unique<calls::IncomingCalls>();
  transport::TcpOptions options;
  options.host_name = config.host_name;
  options.lanes = config.tcp_lanes;
  options.congestion_control = config.tcp_congestion_control;
  options.tls = tls_files(config);
  options.take_call = [this](std::unique_ptr<transport::tcp::Stream> stream, std::string peer) {
    incoming_calls_->take(std::move(stream), std::move(peer));
  };
  auto tcp = transport::Tcp::create(options, *loop_, clock_, *fabric_);
  if (!tcp) return Failure(std::move(tcp).error());
  tcp_ = *std::move(tcp);
  fabric_->use(*tcp_);
  return {};
}

Result<void> Daemon::make_host_calls(const control::ClusterConfig& config) {
  auto tls = make_tls(config);
  if (!tls) return Failure(std::move(tls).error());
  const auto find_route =
      [&plane = *membership_->plane()](const std::string& host) -> std::optional<calls::Route> {
    const auto inventory = plane.inventory();
    const auto self = inventory->hosts.find(plane.host());
    const auto other = inventory->hosts.find(host);
    if (self == inventory->hosts.end() || other == inventory->hosts.end()) return std::nullopt;
    const IpAddress* const from = self->second.tagged_address();
    const IpAddress* const to = other->second.tagged_address();
    if (from == nullptr || to == nullptr) return std::nullopt;
    return calls::Route{*from, *to};
  };
  host_calls_ = std::make_unique<calls::HostCalls>(config.host_name, find_route, *std::move(tls),
                                                   tcp_->congestion_control());
  return {};
}

void Daemon::make_hca(const control::ClusterConfig& config) {
  introducer_ = std::make_unique<transport::hca::CallIntroducer>(*host_calls_);
  hca_worker_ = std::make_unique<transport::hca::WorkerThread>();
  std::string refused;
  if (!config.hca_enabled) refused = "[hca] enabled is false on this host";
  if (config.hca_require_encryption)
    refused = "[hca] require_encryption is true on this host, and nothing shows whether RDMA NICs encrypt";
  hca_ = std::make_unique<transport::Hca>(
      transport::HcaOptions{.open = transport::hca::open_rdma,
                            .introducer = *introducer_,
                            .worker = *hca_worker_,
                            .may_ask = [this](transport::HostId host) { return tcp_->is_up(host); },
                            .refused = std::move(refused)},
      *loop_, clock_, *fabric_);
  fabric_->use(*hca_);
  incoming_calls_->on(transport::hca::kPipeOffer,
                      [this](calls::IncomingCall& call, const calls::Said& first) {
                        transport::hca::answer_pipe_offer(*hca_, call, first);
                      });
}

void Daemon::make_moves() {
  side_ = std::make_unique<moves::ShardSide>(*loop_, clock_, *adapters_);
  const moves::FindMonitor find_monitor = [this](const std::string& adapter) {
    return side_->monitor(adapter);
  };
  upgrades_ = std::make_unique<moves::Upgrades>(*side_);
  checkpoints_ = std::make_unique<moves::Checkpoints>(*side_, find_monitor);
  if (membership_ != nullptr)
    motions_ = std::make_unique<moves::Motions>(*membership_->plane(), *side_, *host_calls_, *incoming_calls_,
                                                find_monitor);
}

Result<void> Daemon::make_roce(const std::vector<control::RoceConfig>& links) {
  if (links.empty()) return {};
  roce_ = std::make_unique<transport::Roce>(*fabric_, transport::RoceOptions{});
  loop_->add(*roce_);
  links_ = links;
  for (const control::RoceConfig& link : links_) {
    const auto number = roce_->add_link([&](transport::roce::FrameHandler& handler) {
      return transport::roce::open_link(link.link, *loop_, clock_, handler);
    });
    if (!number) return Failure(number.error());
    if (!link.dvs.empty()) continue;  // the cluster's view assigns its segment
    roce_->assign(*number, transport::SegmentId{});
    fabric_->segment({}).set_native(fabric::NativeRule{{}, link.peers});
  }
  fabric_->use(*roce_);
  return {};
}

void Daemon::make_controls(const control::DaemonConfig& config, const std::string& version) {
  adapter_links_ = std::make_unique<adapters::ShardLinks>(*loop_, *adapters_);
  captures_ = std::make_unique<adapters::ShardCaptures>(*loop_, *adapters_, *reaper_, version);
  faults_ = std::make_unique<adapters::ShardFaults>(
      *loop_, clock_, *adapters_, *fabric_, roce_.get(), *reaper_,
      config.fault_injection ? adapters::Injection::kAllowed : adapters::Injection::kRefused);
}

Daemon::~Daemon() {
  if (checkpoints_ != nullptr) checkpoints_->interrupt();
  api_.reset();
  if (incoming_calls_ != nullptr) incoming_calls_->interrupt();
  if (motions_ != nullptr) motions_->stop();
  if (incoming_calls_ != nullptr) incoming_calls_->stop();
  if (introducer_ != nullptr) introducer_->stop();
  if (hca_worker_ != nullptr) hca_worker_->stop_jobs();
  if (membership_ != nullptr) {
    const bool comes_back = keeper_ != nullptr && keeper_->keeps_clients();
    membership_->stop(comes_back ? control::LeasedRecords::kLeave : control::LeasedRecords::kGiveBack);
  }
  shard_.reset();
  if (keeper_ != nullptr) keeper_->keep_all();
  adapters_.reset();
  if (fabric_ != nullptr) {
    fabric_->drop(transport::PathKind::kHca);
    fabric_->drop(transport::PathKind::kTcp);
    fabric_->drop(transport::PathKind::kRoce);
  }
  if (roce_ != nullptr) loop_->remove(*roce_);
}

Result<void> Daemon::start() {
  if (auto started = adapters_->start(); !started) return started;
  if (keeper_ != nullptr) keeper_->start(*adapters_);
  shard_->start();
  api_->start();
  return {};
}

// Runs on the shard. Configures the transports first, because the fabric's connections continue over them at
// once.
void Daemon::apply(const cluster::ShardView& view) {
  tcp_->configure(view.tcp);
  hca_->configure(view.hca);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].dvs.empty()) continue;
    const auto dvs = view.switches.find(links_[i].dvs);
    roce_->assign(i, dvs != view.switches.end()
                         ? std::optional(transport::SegmentId{dvs->second, links_[i].vlan})
                         : std::nullopt);
  }
  fabric_->set_view(view.fabric);
  natives_->set_cluster(view.switches, view.fabric.natives);
  adapters_->set_wanted(view.adapters);
}

}  // namespace pvrdma::daemon
