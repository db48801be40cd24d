#include "pvrdmad/daemon.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <variant>

#include "api/host_read_answers.h"
#include "api/routes.h"
#include "base/log.h"
#include "base/unix_listener.h"
#include "control/model/edits.h"
#include "control/store/store.h"
#include "pvrdmad/sandbox.h"
#include "transport/tcp/passed_lane.h"
#include "transport/tcp/stream.h"
#include "vmm/vmm_folder.h"

namespace pvrdma::daemon {

namespace {

// A daemon that was killed has left the sockets of its VMs. Some of them may be on other hosts now.
void remove_sockets_of_others(const control::ClusterConfig& config, const std::set<std::string>& kept) {
  const auto dead = remove_dead_sockets(
      config.socket_folder, cluster::kSocketSuffix,
      [&kept](const std::string& path) { return kept.contains(std::filesystem::path(path).stem()); });
  for (const std::string& socket : dead) vmm::remove_empty_folder_beside(socket);
}

std::unique_ptr<control::Store> make_store(const control::ClusterConfig& config) {
  if (const auto* etcd = std::get_if<control::EtcdConfig>(&config.store)) {
    return control::make_etcd_store(*etcd);
  }
  return control::make_sqlite_store(std::get<control::SqliteConfig>(config.store));
}

// Null: lanes and calls are plain.
Result<std::shared_ptr<tls::Context>> make_tls(const control::ClusterConfig& config) {
  if (!config.tcp_tls) return std::shared_ptr<tls::Context>();
  auto made = tls::Context::mutual({config.tcp_tls->ca, config.tcp_tls->certificate, config.tcp_tls->key});
  if (!made) return Failure(std::move(made).error());
  return std::shared_ptr<tls::Context>(*std::move(made));
}

}  // namespace

static_assert(api::kPvrdmaPort == transport::kTcpPort, "the ruleset opens the port that is used");

Result<std::unique_ptr<Daemon>> Daemon::create(const control::Config& config, const std::string& version,
                                               const control::Plane::StopAsked& stop_asked,
                                               keep::DescriptorStore* store) {
  std::unique_ptr<Daemon> daemon(new Daemon);
  if (auto built = daemon->build(config, version, stop_asked, store); !built)
    return Failure(std::move(built).error());
  return daemon;
}

// Each step borrows what earlier steps made. The host is announced last, when every socket is bound.
Result<void> Daemon::build(const control::Config& config, const std::string& version,
                           const control::Plane::StopAsked& stop_asked, keep::DescriptorStore* store) {
  if (auto made = make_loops(config.daemon); !made) return made;
  make_keeper(store);
  make_membership(config, version);
  if (auto made = make_rigs(); !made) return made;
  if (auto made = make_tcp(config.cluster); !made) return made;
  if (auto made = first().make_roce(config.roce, config.budgets.total); !made) return made;
  if (auto made = make_adapters(config); !made) return made;
  if (auto read = connect_store(config.cluster, stop_asked); !read) return read;
  if (auto made = make_host_calls(config.cluster); !made) return made;
  make_hca(config.cluster);
  make_controls(config.daemon, version);
  make_moves(config.daemon);
  make_reads();
  if (auto bound = listen(config, version); !bound) return bound;
  answer_reads();
  if (auto made = make_threads(config.daemon); !made) return made;
  announce();
  return {};
}

Result<void> Daemon::make_loops(const control::DaemonConfig& config) {
  auto reaper = Reaper::create();
  if (!reaper) return Failure(std::move(reaper).error());
  reaper_ = *std::move(reaper);
  if (config.ward) ward_number_ = transport::ShardNumber(static_cast<std::uint16_t>(config.shards));
  for (std::uint32_t i = 0; i < config.shards + (config.ward ? 1 : 0); ++i) {
    auto loop = shard::Loop::create(
        {.shard = i, .spin = config.spin, .never_sleeps_while_polling = config.dedicated_core.has_value()},
        clock_);
    if (!loop) return Failure(std::move(loop).error());
    loops_.push_back(*std::move(loop));
  }
  return {};
}

void Daemon::make_keeper(keep::DescriptorStore* store) {
  if (store != nullptr) keeper_ = std::make_unique<adapters::Keeper>(*store, clock_);
}

void Daemon::make_membership(const control::Config& config, const std::string& version) {
  if (!config.cluster) return;
  std::vector<shard::Loop*> loops;
  for (const auto& loop : loops_) loops.push_back(loop.get());
  const cluster::ShardCount shards{.ordinary = static_cast<std::uint16_t>(shards_without_ward()),
                                   .has_ward = ward_number_.has_value()};
  membership_ = std::make_unique<cluster::Membership>(
      *config.cluster, version, config.roce, shards, loops, clock_,
      [this](transport::ShardNumber shard, const cluster::ShardView& view) {
        rigs_[shard.value]->apply(view);
      },
      keeper_ != nullptr ? keeper_->instance() : std::string());
}

Result<void> Daemon::make_rigs() {
  const auto shards = static_cast<std::uint16_t>(loops_.size());
  gids_ = std::make_unique<fabric::HostGids>(shards, ward_number_);
  for (std::uint16_t i = 0; i < shards; ++i) {
    const transport::ShardNumber shard(i);
    fabric::FabricObserver* const observer = membership_ != nullptr ? &membership_->of_shard(shard) : nullptr;
    rigs_.push_back(std::make_unique<ShardRig>(shard, *loops_[i], clock_, *gids_, observer));
  }
  if (shards == 1) return {};
  auto rings = transport::siblings::HostRings::create(shards);
  if (!rings) return Failure(std::move(rings).error());
  for (const auto& rig : rigs_) {
    if (auto made = rig->make_siblings(*rings); !made) return made;
  }
  gids_->set_tell(
      [this](transport::ShardNumber from, transport::SegmentId segment, fabric::HostGids::PortNumber port) {
        for (std::size_t i = 0; i < rigs_.size(); ++i) {
          if (i != from.value) rigs_[from.value]->tell_works_again(*rigs_[i], segment, port);
        }
      });
  return {};
}

Result<void> Daemon::make_tcp(const std::optional<control::ClusterConfig>& config) {
  if (!config) return {};
  incoming_calls_ = std::make_unique<calls::IncomingCalls>();
  auto tls = make_tls(*config);
  if (!tls) return Failure(std::move(tls).error());
  tls_ = *std::move(tls);
  if (tls_ != nullptr) certificates_.add("tcp", tls_);
  const auto shards = static_cast<std::uint32_t>(rigs_.size());
  const auto lanes = std::max(1U, config->tcp_lanes / static_cast<std::uint32_t>(shards_without_ward()));
  transport::TcpOptions options;
  options.host_name = config->host_name;
  options.shards = shards;
  options.congestion_control = config->tcp_congestion_control;
  options.tls = tls_;
  options.take_call = [this](std::unique_ptr<transport::tcp::Stream> stream, std::string peer) {
    incoming_calls_->take(std::move(stream), std::move(peer));
  };
  if (shards > 1) {
    options.pass_lane = [this, shards](transport::ShardNumber to,
                                       std::unique_ptr<transport::tcp::PassedLane> lane) {
      return to.value < shards && rigs_[to.value]->take_lane(std::move(lane));
    };
  }
  for (std::uint16_t i = 0; i < shards; ++i) {
    options.shard = transport::ShardNumber(i);
    options.lanes = options.shard == ward_number_ ? 1 : lanes;
    if (auto made = rigs_[i]->make_tcp(options); !made) return made;
  }
  return {};
}

Result<void> Daemon::make_adapters(const control::Config& config) {
  account_ = std::make_unique<verbs::HostAccount>(config.budgets.total);
  if (ward_number_) ward_ = std::make_unique<adapters::Ward>(clock_);
  std::vector<adapters::Shard> shards;
  for (const auto& rig : rigs_) {
    const bool is_ward = ward_number_ && shards.size() == ward_number_->value;
    rig->make_adapters(config.roce, membership_.get(), config.budgets.each, *account_, *reaper_, keeping(),
                       is_ward ? nullptr : ward_.get());
    shards.push_back(rig->shard());
    shards.back().is_ward = is_ward;
  }
  shards_ = std::make_unique<adapters::Shards>(std::move(shards));
  std::set<std::string> kept;
  if (keeper_ != nullptr) {
    // A member of a cluster learns later which VMs it has, so it takes back every kept adapter.
    kept = keeper_->give_back([&config](const std::string& name) {
      return config.cluster ||
             std::ranges::find(config.adapters, name, &control::AdapterConfig::name) != config.adapters.end();
    });
  }
  if (config.cluster) remove_sockets_of_others(*config.cluster, kept);
  for (std::size_t i = 0; i < config.adapters.size(); ++i) {
    for (const auto& rig : rigs_) rig->adapters().reserve(config.adapters[i].name);
    auto added = rigs_[shard_of(i)]->adapters().add_static(config.adapters[i]);
    if (!added) return Failure(std::move(added).error().in("adapter " + config.adapters[i].name));
  }
  return {};
}

// Without a store, the adapters of several shards are kept for their moves.
adapters::Keeping* Daemon::keeping() {
  if (keeper_ != nullptr) return &keeper_->keeping();
  return rigs_.size() > 1 ? &unstored_ : nullptr;
}

Result<void> Daemon::connect_store(const std::optional<control::ClusterConfig>& config,
                                   const control::Plane::StopAsked& stop_asked) {
  return config ? membership_->connect(make_store(*config), stop_asked) : Result<void>();
}

Result<void> Daemon::make_host_calls(const std::optional<control::ClusterConfig>& config) {
  if (!config) return {};
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
  host_calls_ = std::make_unique<calls::HostCalls>(config->host_name, find_route, tls_.get(),
                                                   first().tcp()->congestion_control());
  return {};
}

void Daemon::make_hca(const std::optional<control::ClusterConfig>& config) {
  if (!config) return;
  introducer_ = std::make_unique<transport::hca::CallIntroducer>(*host_calls_);
  hca_worker_ = std::make_unique<transport::hca::WorkerThread>();
  for (const auto& rig : rigs_) rig->make_hca(*introducer_, *hca_worker_, control::why_no_hca(*config));
  const transport::hca::FindHca find = [this](transport::ShardNumber shard) {
    return shard.value < rigs_.size() ? rigs_[shard.value]->hca() : nullptr;
  };
  incoming_calls_->on(transport::hca::kPipeOffer, [find](calls::IncomingCall& call, const calls::Said& said) {
    transport::hca::answer_pipe_offer(find, call, said);
  });
}

void Daemon::make_controls(const control::DaemonConfig& config, const std::string& version) {
  std::vector<const transport::Tcp*> tcps;
  std::vector<const transport::Hca*> hcas;
  if (membership_ != nullptr) {
    for (const auto& rig : rigs_) {
      tcps.push_back(rig->tcp());
      hcas.push_back(rig->hca());
    }
  }
  snapshots_ = std::make_unique<snapshots::ShardSnapshots>(
      *shards_, *account_, std::move(tcps), std::move(hcas), [this] { return process_counters(); });
  adapter_links_ = std::make_unique<adapters::ShardLinks>(*shards_);
  captures_ = std::make_unique<adapters::ShardCaptures>(*shards_, *reaper_, version);
  faults_ = std::make_unique<adapters::ShardFaults>(
      *shards_, clock_, *reaper_,
      config.fault_injection ? adapters::Injection::kAllowed : adapters::Injection::kRefused);
}

std::vector<snapshots::CounterGroup> Daemon::process_counters() const {
  std::vector<snapshots::CounterGroup> groups;
  if (sandbox::is_confined()) groups.push_back({"sandbox", {{"refused_calls", sandbox::refused_calls()}}});
  if (rigs_.size() > 1) {
    const adapters::ShardPlacement::Counts counts = placement_->counts();
    groups.push_back(
        {"placement",
         {{"moves", counts.moves}, {"own_moves", counts.own_moves}, {"ward_moves", counts.ward_moves}}});
  }
  return groups;
}

void Daemon::make_moves(const control::DaemonConfig& config) {
  side_ = std::make_unique<moves::ShardSide>(*shards_, clock_);
  const moves::FindMonitor find_monitor = [this](const std::string& adapter) {
    return side_->monitor(adapter);
  };
  const moves::CheckStays check_stays = [this](const std::string& vm) {
    return membership_ != nullptr ? control::edits::check_stays(*membership_->plane()->inventory(), vm)
                                  : Result<void>();
  };
  upgrades_ = std::make_unique<moves::Upgrades>(*side_, check_stays);
  checkpoints_ = std::make_unique<moves::Checkpoints>(*side_, find_monitor, check_stays);
  if (membership_ != nullptr)
    motions_ = std::make_unique<moves::Motions>(*membership_->plane(), *side_, *host_calls_, *incoming_calls_,
                                                find_monitor);
  placement_ = std::make_unique<adapters::ShardPlacement>(
      *shards_,
      [this, check_stays](const std::string& adapter) {
        auto stays = check_stays(adapter);
        return stays ? checkpoints_->check_none(adapter) : stays;
      },
      membership_.get());
  if (config.shard_balancing)
    balancer_ = std::make_unique<adapters::ShardBalancer>(*shards_, *placement_, clock_);
}

api::HostProof Daemon::host_proof() {
  return tls_ != nullptr ? api::HostProof::kCertificates : api::HostProof::kNone;
}

void Daemon::make_reads() {
  if (membership_ == nullptr) return;
  reads_ = std::make_unique<api::HostReads>(
      [this](const std::string& host) { return host_calls_->call(host); }, host_proof());
}

void Daemon::answer_reads() {
  if (membership_ == nullptr) return;
  incoming_calls_->on(
      api::kReadWord,
      [answers = std::make_shared<api::HostReadAnswers>(api_->router(), host_proof(), reads_->counters())](
          calls::IncomingCall& call, const calls::Said& said) { answers->answer(call, said); });
}

Result<void> Daemon::listen(const control::Config& config, const std::string& version) {
  auto api = api::ApiServer::listen(config.daemon.api_socket,
                                    {.version = version,
                                     .source = *snapshots_,
                                     .links = *adapter_links_,
                                     .captures = *captures_,
                                     .faults = *faults_,
                                     .upgrades = *upgrades_,
                                     .checkpoints = *checkpoints_,
                                     .placement = *placement_,
                                     .hca_checker = nic_checks_,
                                     .plane = membership_ != nullptr ? membership_->plane() : nullptr,
                                     .motions = motions_.get(),
                                     .reads = reads_.get(),
                                     .injects_faults = config.daemon.fault_injection,
                                     .why_one_shard = control::why_one_shard(config),
                                     .certificates = [this] { return certificates_.states(); }},
                                    config.api);
  if (!api) return Failure(std::move(api).error());
  api_ = *std::move(api);
  // Shared: other hosts may still read /v1/process while the API ends.
  if (auto tls = api_->tls()) certificates_.add("api", std::move(tls));
  return {};
}

Result<void> Daemon::make_threads(const control::DaemonConfig& config) {
  for (const auto& rig : rigs_) {
    if (auto made = rig->make_thread(config.dedicated_core); !made) return made;
  }
  return {};
}

void Daemon::announce() {
  if (membership_ == nullptr) return;
  membership_->join();
  if (keeper_ == nullptr) return;
  if (auto kept = keeper_->keep_instance(membership_->instance()); !kept)
    log::warn("this daemon's next start must wait until its lease ends: {}", kept.error().message);
}

Daemon::~Daemon() {
  if (checkpoints_ != nullptr) checkpoints_->interrupt();
  if (reads_ != nullptr) reads_->interrupt();
  api_.reset();
  if (balancer_ != nullptr) balancer_->stop();
  if (ward_ != nullptr) ward_->stop();
  if (incoming_calls_ != nullptr) incoming_calls_->interrupt();
  if (motions_ != nullptr) motions_->stop();
  if (incoming_calls_ != nullptr) incoming_calls_->stop();
  if (introducer_ != nullptr) introducer_->stop();
  if (hca_worker_ != nullptr) hca_worker_->stop_jobs();
  if (membership_ != nullptr) {
    const bool comes_back = keeper_ != nullptr && keeper_->keeps_clients();
    membership_->stop(comes_back ? control::LeasedRecords::kLeave : control::LeasedRecords::kGiveBack);
  }
  // The last one is the ward, whose thread may sleep. The others serve their guests until it has ended, and
  // take back what it could not do in time.
  for (auto rig = rigs_.rbegin(); rig != rigs_.rend(); ++rig) (*rig)->end_thread();
  if (keeper_ != nullptr) keeper_->keep_all();
  for (const auto& rig : rigs_) rig->end_serving();
}

Result<void> Daemon::start() {
  for (const auto& rig : rigs_) {
    if (auto started = rig->adapters().start(); !started) return started;
  }
  if (keeper_ != nullptr) keeper_->start(*shards_);
  for (const auto& rig : rigs_) rig->start_thread();
  if (balancer_ != nullptr) balancer_->start();
  if (ward_ != nullptr) ward_->start(*placement_);
  api_->start();
  return {};
}

bool Daemon::has_client() {
  const auto snapshot = snapshots_->take_snapshot(snapshots::SnapshotDetail::kAdapters);
  if (!snapshot) return true;
  return std::ranges::any_of(snapshot->shards, [](const auto& shard) { return !shard.trouble.empty(); }) ||
         std::ranges::any_of(snapshot->adapters, [](const auto& adapter) { return adapter.state != "off"; });
}

}  // namespace pvrdma::daemon
