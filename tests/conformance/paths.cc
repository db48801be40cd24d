#include "conformance/paths.h"

#include "gtest/gtest.h"

#include "support/must.h"
#include "transport/hca/hca.h"
#include "transport/local/local.h"
#include "transport/roce/roce.h"
#include "transport/siblings/siblings.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_fixture.h"

namespace pvrdma::conformance {
namespace {

using transport::hca::kConnectX5;
using transport::hca::kE810;
using transport::tcp::address_of;
using transport::tcp::kTestPort;

class LocalPath final : public HostPath {
 public:
  static std::unique_ptr<HostPath> make(const Surroundings&) { return std::make_unique<LocalPath>(); }
  transport::Transport& transport() override { return local_; }

 private:
  transport::Local local_;
};

class SiblingsPath final : public HostPath {
 public:
  explicit SiblingsPath(const Surroundings& around)
      : siblings_(test::must(transport::Siblings::create(
            around.rings, transport::ShardNumber(static_cast<std::uint16_t>(around.host)), around.loop,
            around.fabric))) {}
  static std::unique_ptr<HostPath> make(const Surroundings& around) {
    return std::make_unique<SiblingsPath>(around);
  }
  transport::Transport& transport() override { return *siblings_; }
  Instant next_deadline() const override { return siblings_->next_deadline(); }

 private:
  std::unique_ptr<transport::Siblings> siblings_;
};

class TcpPath final : public HostPath {
 public:
  explicit TcpPath(const Surroundings& around)
      : host_(around.host),
        tcp_(test::must(transport::Tcp::create({.host_name = name(host_), .lanes = 2}, around.loop,
                                               around.clock, around.fabric))) {
    settings_.address = address_of(host_ + 1);
    settings_.port = kTestPort;
    tcp_->configure(settings_);  // listens before any peer dials
  }
  static std::unique_ptr<HostPath> make(const Surroundings& around) {
    return std::make_unique<TcpPath>(around);
  }

  transport::Transport& transport() override { return *tcp_; }
  void meet(std::uint32_t hosts) override {
    hosts_ = hosts;
    unblock();
  }
  void block() override {
    settings_.peers.clear();
    tcp_->configure(settings_);
  }
  void unblock() override {
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      if (host == host_) continue;
      settings_.peers.push_back(
          {.id = host_id(host), .name = name(host), .address = address_of(host + 1), .port = kTestPort});
    }
    tcp_->configure(settings_);
  }
  int cut() override { return transport::tcp::cut_connections_to(address_of(host_ + 1)); }

 private:
  static std::string name(std::uint32_t host) { return "esx" + std::to_string(host + 1); }

  const std::uint32_t host_;
  std::uint32_t hosts_ = 0;
  transport::TcpSettings settings_;
  std::unique_ptr<transport::Tcp> tcp_;
};

class RocePath final : public HostPath {
 public:
  explicit RocePath(const Surroundings& around)
      : loop_(around.loop), ethernet_(around.ethernet), roce_(around.fabric, {}) {
    test::must(
        roce_.add_link([this](transport::roce::FrameHandler& handler) { return ethernet_.plug(handler); }));
    roce_.assign(0, kSegment);
    loop_.add(roce_);
    around.fabric.segment(kSegment).set_native(fabric::NativeRule{kSegment, {}});
  }
  ~RocePath() override { loop_.remove(roce_); }
  static std::unique_ptr<HostPath> make(const Surroundings& around) {
    return std::make_unique<RocePath>(around);
  }

  transport::Transport& transport() override { return roce_; }
  void block() override { ethernet_.block(); }
  void unblock() override { ethernet_.unblock(); }

 private:
  shard::Loop& loop_;
  Ethernet& ethernet_;
  transport::Roce roce_;
};

class HcaPath final : public HostPath {
 public:
  HcaPath(const Surroundings& around, const transport::hca::NicLimits& limits)
      : loop_(around.loop),
        nics_(around.nics),
        book_(around.book),
        host_(around.host),
        introducer_(book_, name(host_)) {
    verbs::Gid gid{{0xfe, 0x80}};
    gid.bytes[15] = static_cast<std::uint8_t>(host_ + 1);
    nics_.add(device(host_), limits, {gid});
    loop_.add(worker_);
    hca_ = std::make_unique<transport::Hca>(
        transport::HcaOptions{
            .open = [&nics = nics_](const std::string& name,
                                    transport::hca::NicUser& user) { return nics.open(name, user); },
            .introducer = introducer_,
            .worker = worker_,
            .lanes = [](transport::HostId) { return transport::hca::LaneState::kUp; },
            .lends_from = limits.reads == kE810.reads ? 1U : 8U * 1024 + 1},
        loop_, around.clock, around.fabric);
    book_.hosts[{name(host_), {}}] = hca_.get();
  }
  ~HcaPath() override {
    book_.hosts.erase({name(host_), {}});
    hca_.reset();
    while (worker_.run({})) {
    }
    loop_.remove(worker_);
    EXPECT_EQ(nics_.crimes(), 0U);
  }
  template <const transport::hca::NicLimits& kLimits>
  static std::unique_ptr<HostPath> make(const Surroundings& around) {
    return std::make_unique<HcaPath>(around, kLimits);
  }

  transport::Transport& transport() override { return *hca_; }
  void meet(std::uint32_t hosts) override {
    hosts_ = hosts;
    unblock();
  }
  void block() override { hca_->configure({.device = device(host_)}); }
  void unblock() override {
    transport::HcaSettings settings{.device = device(host_)};
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      if (host != host_) settings.peers.push_back({host_id(host), name(host)});
    }
    hca_->configure(settings);
  }
  int cut() override { return nics_.break_qps(device(host_)); }
  std::uint64_t fetched() const override { return hca_->bulk().fetched; }
  Instant next_deadline() const override { return hca_->next_deadline(); }

 private:
  static std::string name(std::uint32_t host) { return "esx" + std::to_string(host + 1); }
  static std::string device(std::uint32_t host) { return "rdma" + std::to_string(host); }

  shard::Loop& loop_;
  transport::hca::FakeNetwork& nics_;
  transport::hca::HostBook& book_;
  const std::uint32_t host_;
  std::uint32_t hosts_ = 0;
  transport::hca::LaterWorker worker_;
  transport::hca::DirectIntroducer introducer_;
  std::unique_ptr<transport::Hca> hca_;
};

}  // namespace

const std::vector<PathUnderTest>& all_paths() {
  static constexpr Capabilities kLocal{.may_lose_datagrams = false};
  static constexpr Capabilities kSiblings{.between_shards = true, .may_lose_datagrams = false};
  static constexpr Capabilities kTcp{.between_hosts = true,
                                     .waits_in_kernel = true,
                                     .can_be_cut = true,
                                     .can_be_blocked = true,
                                     .may_lose_datagrams = false};
  static constexpr Capabilities kRoce{
      .between_hosts = true, .between_strangers = true, .can_be_blocked = true};
  static constexpr Capabilities kHca{.between_hosts = true,
                                     .can_be_cut = true,
                                     .can_be_blocked = true,
                                     .may_lose_datagrams = false,
                                     .lends = true};
  static constexpr Capabilities kHcaInFault{
      .between_hosts = true, .can_be_cut = true, .can_be_blocked = true, .may_lose_datagrams = false};
  static constexpr Weather kBadWeather{.drop = 10, .duplicate = 10, .late = 20, .damage = 10};
  static constexpr bool kInsideFault = true;
  static const std::vector<PathUnderTest> all{
      {"local", LocalPath::make, kLocal},
      {"siblings", SiblingsPath::make, kSiblings},
      {"tcp", TcpPath::make, kTcp},
      {"roce", RocePath::make, kRoce},
      {.name = "roce_in_bad_weather", .make = RocePath::make, .can = kRoce, .weather = kBadWeather},
      {.name = "mapped_local", .make = LocalPath::make, .can = kLocal, .doorbells = DoorbellMode::kMapped},
      {.name = "mapped_tcp", .make = TcpPath::make, .can = kTcp, .doorbells = DoorbellMode::kMapped},
      {.name = "mapped_siblings",
       .make = SiblingsPath::make,
       .can = kSiblings,
       .doorbells = DoorbellMode::kMapped},
      {"fault_local", LocalPath::make, kLocal, kInsideFault},
      {"fault_siblings", SiblingsPath::make, kSiblings, kInsideFault},
      {"fault_tcp", TcpPath::make, kTcp, kInsideFault},
      {"hca_connectx5", HcaPath::make<kConnectX5>, kHca},
      {"hca_e810", HcaPath::make<kE810>, kHca},
      {"fault_hca_connectx5", HcaPath::make<kConnectX5>, kHcaInFault, kInsideFault},
      {"fault_hca_e810", HcaPath::make<kE810>, kHcaInFault, kInsideFault},
      {.name = "mapped_hca", .make = HcaPath::make<kE810>, .can = kHca, .doorbells = DoorbellMode::kMapped},
  };
  return all;
}

transport::FaultSettings ordinary_faults() {
  return {.drop_ppm = 10'000,
          .duplicate_ppm = 30'000,
          .delay_ppm = 20'000,
          .reorder_ppm = 20'000,
          .corrupt_ppm = 10'000,
          .late_max = std::chrono::microseconds(500),
          .refuse_ppm = 20'000,
          .refusal_max = std::chrono::microseconds(200)};
}

}  // namespace pvrdma::conformance
