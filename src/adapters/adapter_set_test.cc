#include "adapters/adapter_set.h"

#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "adapters/adapter_fault.h"
#include "base/event_ring.h"
#include "base/reaper.h"
#include "base/unix_listener.h"
#include "shard/ask.h"
#include "support/log_of.h"
#include "transport/local/local.h"
#include "vfio_user/client.h"

// Tests with a real loop and real clients.
namespace pvrdma::adapters {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using pvrdma::test::log_of;

class PowerLog final : public PowerObserver {
 public:
  void on_power(const std::string& vm, bool on) override {
    const std::lock_guard lock(mutex_);
    log_.emplace_back(vm, on);
  }
  std::vector<std::pair<std::string, bool>> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, bool>> log_;
};

class AdapterSetTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
    fabric_.use(local_);
  }
  void TearDown() override {
    if (thread_.joinable()) {
      loop_->stop();
      thread_.join();
    }
    set_.reset();
    EXPECT_TRUE(fs::is_empty(folder_)) << "a socket is left behind";
    fs::remove_all(folder_);
  }
  void run() {
    ASSERT_TRUE(set_->start());
    thread_ = std::thread([this] { loop_->run(); });
  }
  template <typename Question>
  auto on_shard(Question question) {
    return shard::ask(*loop_, 10s, std::move(question)).value();
  }
  void want(const std::vector<WantedAdapter>& wanted) {
    std::set<std::string> names;
    for (const WantedAdapter& each : wanted) names.insert(each.config.name);
    on_shard([this, wanted, names] {
      set_->set_wanted(wanted, names);
      return true;
    });
  }
  std::string socket(const std::string& vm) const { return folder_ + "/" + vm + ".sock"; }
  WantedAdapter wanted(const std::string& vm, std::string refusal = {}) const {
    return {{vm, socket(vm), {0x52, 0x54, 0, 0, 0, 1}, HardwareVersion::k14, RoceVersion::kV2},
            {1, 7},
            std::move(refusal)};
  }
  std::uint32_t hardware_version(const std::string& vm) {
    return on_shard([this, vm] {
      for (const auto& each : set_->adapters()) {
        if (each->port().name() == vm) {
          return number_of(each->adapter().info().hardware_version);
        }
      }
      return 0U;
    });
  }
  std::optional<device::AdapterInfo> info(const std::string& vm) {
    return on_shard([this, vm]() -> std::optional<device::AdapterInfo> {
      for (const auto& each : set_->adapters()) {
        if (each->port().name() == vm) return each->adapter().info();
      }
      return std::nullopt;
    });
  }
  std::uint64_t limit(const std::string& vm, Budget budget) {
    return on_shard([this, vm, budget]() -> std::uint64_t {
      for (const auto& each : set_->adapters()) {
        if (each->port().name() == vm)
          return each->adapter().info().budgets[static_cast<std::size_t>(budget)].limit;
      }
      return 0;
    });
  }
  std::size_t trouble_count() {
    return on_shard([this] { return set_->troubles().size(); });
  }
  // Waits until `holds` is true. The test's own time limit guards against hanging.
  static void wait_until(const std::function<bool()>& holds) {
    while (!holds()) std::this_thread::sleep_for(1ms);
  }
  std::unique_ptr<vfio_user::Client> connect(const std::string& vm) {
    auto client = vfio_user::Client::connect(socket(vm)).value();
    EXPECT_TRUE(client->device_info());
    return client;
  }

  const std::string folder_ = testing::TempDir() + "adapter_set_test_" + std::to_string(::getpid());
  SteadyClock clock_;
  transport::Local local_;
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  fabric::Fabric fabric_{clock_};
  PowerLog power_;
  std::unique_ptr<AdapterSet> set_ = std::make_unique<AdapterSet>(fabric_, *loop_, clock_, &power_);
  std::thread thread_;
};

// An adapter that waits for its VM while its daemon is restarted.
class WaitingAdapterTest : public AdapterSetTest {
 protected:
  WaitingAdapterTest() { coming_.is_arriving = true; }

  // The client stays connected. The guest's objects have not arrived yet. `after`: what is wanted after the
  // restart.
  std::unique_ptr<vfio_user::Client> restart_with_client(const WantedAdapter& after) {
    auto client = restart_with_client();
    want({after});
    EXPECT_TRUE(waits());
    EXPECT_TRUE(client->device_info());
    EXPECT_TRUE(power_.log().empty());
    return client;
  }
  std::unique_ptr<vfio_user::Client> restart_with_client() {
    make_set();
    run();
    want({coming_});
    auto client = connect("VM-01");
    auto kept = on_shard([this] {
      ServedAdapter& adapter = *set_->adapters().at(0);
      auto all = adapter.keep(
          device::Adapter::Objects::kSaved, [](KeptId) { return false; }, clock_.now());
      adapter.leave();
      return all;
    });
    EXPECT_EQ(kept.trouble, "");
    loop_->stop();
    thread_.join();
    set_.reset();
    loop_ = shard::Loop::create({}, clock_).value();
    make_set();
    std::map<std::string, GivenBack> given;
    given.emplace("VM-01", read_kept(std::move(kept.fds), std::move(kept.stream)).value());
    keeping_.give_back(std::move(given));
    run();
    return client;
  }
  bool waits() {
    return on_shard([this] { return set_->adapters().at(0)->port().waits(); });
  }
  bool is_unclaimed() {
    return on_shard([this] { return set_->adapters().at(0)->home() == device::Home::kUnclaimed; });
  }

  WantedAdapter coming_ = wanted("VM-01");

 private:
  void make_set() {
    set_ = std::make_unique<AdapterSet>(fabric_, *loop_, clock_, &power_, Budgets{}, nullptr, nullptr,
                                        nullptr, &keeping_);
  }

  Keeping keeping_{[] {}};
};

TEST_F(WaitingAdapterTest, IsItsVmsWhenTheStoreHasThatHereInTheEnd) {
  const auto client = restart_with_client(coming_);
  EXPECT_TRUE(is_unclaimed());
  want({wanted("VM-01")});
  EXPECT_FALSE(waits());
  EXPECT_FALSE(is_unclaimed());
  EXPECT_TRUE(client->device_info());
  EXPECT_EQ(power_.log(), (std::vector<std::pair<std::string, bool>>{{"VM-01", true}}));
}

// TearDown() finds a socket that is left behind.
TEST_F(WaitingAdapterTest, LeavesNoSocketIfItsVmStaysAway) {
  const auto client = restart_with_client();
  ASSERT_TRUE(fs::exists(socket("VM-01")));
  want({});
  EXPECT_FALSE(client->device_info());
  EXPECT_FALSE(fs::exists(socket("VM-01")));
}

TEST_F(WaitingAdapterTest, IsLeftToWhoeverHasBegunToBringItsVm) {
  const auto client = restart_with_client(coming_);
  EXPECT_TRUE(on_shard([this] { return set_->adapters().at(0)->stop(); }));
  want({wanted("VM-01")});
  EXPECT_TRUE(waits()) << "that one lets it arrive";
  EXPECT_TRUE(power_.log().empty());
  on_shard([this] {
    set_->adapters().at(0)->arrive();
    return true;
  });
  EXPECT_FALSE(waits());
}

TEST_F(WaitingAdapterTest, IsMadeAgainForAnotherClient) {
  auto client = restart_with_client(coming_);
  client.reset();
  wait_until([this] { return !is_unclaimed(); });
  want({wanted("VM-01")});
  EXPECT_FALSE(waits());
  EXPECT_TRUE(power_.log().empty()) << "its VM is off";
  EXPECT_TRUE(connect("VM-01"));
}

TEST_F(WaitingAdapterTest, KeepsItsClientWhileItsOwnerCannotBeLookedUp) {
  WantedAdapter unknown = coming_;
  unknown.trouble = "this host cannot look up the user alice";
  const auto client = restart_with_client(unknown);
  EXPECT_EQ(trouble_count(), 0U);
  want({coming_});
  EXPECT_TRUE(client->device_info());
}

TEST_F(AdapterSetTest, AFaultGoesWithItsAdapter) {
  const auto reaper = Reaper::create().value();
  run();
  want({wanted("VM-01")});
  std::weak_ptr<AdapterFault> kept;
  {
    auto fault = AdapterFault::create(1, {.adapter = "VM-01", .drop_ppm = 1},
                                      {fabric_.transports(), fabric_, nullptr, clock_}, reaper->open_queue());
    kept = fault;
    EXPECT_TRUE(on_shard([this, &fault] { return set_->adapters()[0]->inject(std::move(fault)); }));
  }
  EXPECT_FALSE(kept.expired());
  const std::uint64_t before = events::newest().last();
  EXPECT_THAT(log_of([this] { want({}); }), testing::HasSubstr("adapter VM-01: fault 1 ends"));
  EXPECT_TRUE(kept.expired());
  std::vector<events::Event> told = events::newest().page(before, events::EventRing::kSlots).events;
  std::erase_if(told, [](const events::Event& event) { return event.type != events::Type::kFault; });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].object, "VM-01");
  EXPECT_EQ(told[0].text,
            "adapter VM-01: fault 1 ends, which dropped 0 of 0 messages: the adapter is removed, or the "
            "daemon stops");
}

TEST_F(AdapterSetTest, AFaultEndsWhenItsVmHasMoved) {
  const auto reaper = Reaper::create().value();
  run();
  want({wanted("VM-01")});
  const auto client = connect("VM-01");
  auto fault = AdapterFault::create(7, {.adapter = "VM-01", .drop_ppm = 1},
                                    {fabric_.transports(), fabric_, nullptr, clock_}, reaper->open_queue());
  const std::string log = log_of([&] {
    EXPECT_TRUE(on_shard([this, &fault] {
      ServedAdapter& adapter = *set_->adapters()[0];
      const bool moves = adapter.inject(std::move(fault)) && adapter.stop();
      if (moves) adapter.depart();
      return moves && adapter.fault() == nullptr;
    }));
  });
  EXPECT_THAT(log,
              testing::HasSubstr("adapter VM-01: fault 7 ends, which dropped 0 of 0 messages: its VM is on "
                                 "another host now"));
}

TEST_F(AdapterSetTest, ServesWhatIsWantedAndNoMore) {
  ASSERT_TRUE(set_->add_static(
      {"static", socket("static"), {2, 0, 0, 0, 0, 9}, HardwareVersion::k14, RoceVersion::kV2}));
  run();
  want({wanted("VM-01"), wanted("VM-02")});
  EXPECT_TRUE(connect("VM-01"));
  EXPECT_TRUE(connect("static"));
  want({wanted("VM-02")});
  EXPECT_EQ(hardware_version("VM-02"), 14U);
  wait_until([this] { return !fs::exists(socket("VM-01")); });
  EXPECT_TRUE(fs::exists(socket("VM-02")));
  EXPECT_TRUE(fs::exists(socket("static")));
}

TEST_F(AdapterSetTest, AVmHasTheHostsBudgetsAndMapsNoMoreThanItsMemoryTwiceAndSlack) {
  Budgets budgets;
  budgets.qps = 64;
  budgets.mapped_mib = 4096;
  set_ = std::make_unique<AdapterSet>(fabric_, *loop_, clock_, &power_, budgets);
  run();
  WantedAdapter small = wanted("VM-01");
  small.memory_mib = 512;
  WantedAdapter large = wanted("VM-02");
  large.memory_mib = 8192;
  want({small, large, wanted("VM-03")});
  EXPECT_EQ(limit("VM-01", Budget::kQps), 64U);
  EXPECT_EQ(limit("VM-01", Budget::kMapped), 2 * 512U + 1024U);
  EXPECT_EQ(limit("VM-02", Budget::kMapped), 4096U);
  EXPECT_EQ(limit("VM-03", Budget::kMapped), 4096U);
  small.memory_mib = 1024;
  want({small});
  EXPECT_EQ(limit("VM-01", Budget::kMapped), 2 * 1024U + 1024U);
}

TEST_F(AdapterSetTest, TellsWhenVmsArePoweredOnAndOff) {
  ASSERT_TRUE(set_->add_static(
      {"static", socket("static"), {2, 0, 0, 0, 0, 9}, HardwareVersion::k14, RoceVersion::kV2}));
  run();
  want({wanted("VM-01")});
  { connect("static"); }
  { connect("VM-01"); }
  wait_until([this] { return power_.log().size() == 2; });
  EXPECT_EQ(power_.log(), (std::vector<std::pair<std::string, bool>>{{"VM-01", true}, {"VM-01", false}}));
}

TEST_F(AdapterSetTest, DisturbsNoConnectedVm) {
  run();
  want({wanted("VM-01"), wanted("VM-02")});
  auto first = connect("VM-01");
  auto second = connect("VM-02");
  WantedAdapter upgraded = wanted("VM-01");
  upgraded.config.hardware_version = HardwareVersion::k18;
  want({upgraded});
  EXPECT_TRUE(first->device_info());
  EXPECT_TRUE(second->device_info());
  EXPECT_EQ(hardware_version("VM-01"), 14U);
  first.reset();
  second.reset();
  wait_until([this] { return hardware_version("VM-01") == 18; });
  wait_until([this] { return !fs::exists(socket("VM-02")); });
  EXPECT_TRUE(connect("VM-01"));
}

TEST_F(AdapterSetTest, AnAdapterHasTheDoorbellModeAndTheMtuThatAreWanted) {
  run();
  WantedAdapter changed = wanted("VM-01");
  want({changed});
  EXPECT_EQ(info("VM-01")->doorbells, kDoorbellModeDefault);
  EXPECT_EQ(info("VM-01")->mtu_bytes, 1024U);
  changed.config.doorbells = DoorbellMode::kTrapped;
  changed.config.mtu = 9000;
  want({changed});
  EXPECT_EQ(info("VM-01")->doorbells, DoorbellMode::kTrapped);
  EXPECT_EQ(info("VM-01")->mtu_bytes, 4096U);
}

TEST_F(AdapterSetTest, HardwareVersionAndProfileDecideWhoMayReachNativeEndpoints) {
  NativeLinks natives({{.link = {LinkKind::kXdp, "lo"}, .dvs = "DSwitch", .vlan = 7}});
  natives.set_cluster({{"DSwitch", 1}}, {{{1, 7}, {}}});
  set_ =
      std::make_unique<AdapterSet>(fabric_, *loop_, clock_, &power_, Budgets{}, nullptr, nullptr, &natives);
  run();
  const auto access = [this] {
    return on_shard([this] { return std::string(set_->native_access(*set_->adapters().at(0)).why_not); });
  };
  WantedAdapter changed = wanted("VM-01");
  want({changed});
  EXPECT_EQ(access(), "");
  changed.config.profile = Profile::kEsxi;
  want({changed});
  EXPECT_EQ(access(), "with the profile esxi they need hardware version 18");
  changed.config.hardware_version = HardwareVersion::k18;
  want({changed});
  EXPECT_EQ(access(), "");
  EXPECT_TRUE(connect("VM-01"));
  changed.segment = {1, 8};
  changed.config.name = "VM-02";
  changed.config.socket = socket("VM-02");
  want({changed});
  EXPECT_EQ(on_shard([this] { return std::string(set_->native_access(*set_->adapters().back()).why_not); }),
            "its port group does not allow them");
}

TEST_F(AdapterSetTest, AChangedSegmentIsAppliedAsWell) {
  run();
  want({wanted("VM-01")});
  WantedAdapter moved = wanted("VM-01");
  moved.segment = {1, 8};
  want({moved});
  const auto segment = on_shard([this] { return set_->adapters().at(0)->port().fabric_switch().segment(); });
  EXPECT_EQ(segment, (transport::SegmentId{1, 8}));
}

TEST_F(AdapterSetTest, SendsAVmAwayThatMayNotBePoweredOn) {
  run();
  want({wanted("VM-01", "VM VM-01 has memory that is not reserved")});
  const auto refused = vfio_user::Client::connect(socket("VM-01"));
  EXPECT_FALSE(refused && (*refused)->device_info());
  EXPECT_TRUE(power_.log().empty());
  want({wanted("VM-01")});
  auto client = connect("VM-01");
  EXPECT_EQ(power_.log(), (std::vector<std::pair<std::string, bool>>{{"VM-01", true}}));
  want({wanted("VM-01", "a rule")});
  EXPECT_TRUE(client->device_info()) << "a VM that is on stays on";
}

TEST_F(AdapterSetTest, TriesAgainWhatCannotBeMadeYet) {
  run();
  WantedAdapter nested = wanted("VM-01");
  nested.config.socket = folder_ + "/later/VM-01.sock";
  want({nested, wanted("VM-02")});
  EXPECT_EQ(trouble_count(), 1U);
  const auto troubles = on_shard([this] { return set_->troubles(); });
  EXPECT_EQ(troubles.at(0).vm, "VM-01");
  EXPECT_NE(troubles.at(0).why.find("/later"), std::string::npos) << troubles.at(0).why;
  EXPECT_TRUE(connect("VM-02"));
  fs::create_directory(folder_ + "/later");
  wait_until([this] { return trouble_count() == 0; });
  EXPECT_TRUE(vfio_user::Client::connect(nested.config.socket));
  want({});
  wait_until([&] { return !fs::exists(nested.config.socket); });
  fs::remove(folder_ + "/later");
}

TEST_F(AdapterSetTest, AnAdapterThatDoesNotStartLeavesTheSocketsOfAVmmThatRuns) {
  const auto listening =
      UnixListener::listen(socket("VM-01"), {.what = "another daemon", .mode = 0600, .backlog = 1}).value();
  fs::create_directory(folder_ + "/VM-01.vmm");
  const auto monitor =
      UnixListener::listen(folder_ + "/VM-01.vmm/qmp", {.what = "QEMU's monitor", .mode = 0600, .backlog = 1})
          .value();
  run();
  want({wanted("VM-01")});
  EXPECT_EQ(trouble_count(), 1U);
  EXPECT_TRUE(fs::exists(folder_ + "/VM-01.vmm/qmp"));
  want({});
  fs::remove_all(folder_ + "/VM-01.vmm");
}

TEST_F(AdapterSetTest, DoesNotServeWhatHasTrouble) {
  run();
  WantedAdapter without_owner = wanted("VM-01");
  without_owner.trouble = "this host has no user nosuch";
  want({wanted("VM-01")});
  want({without_owner});
  wait_until([this] { return trouble_count() == 1; });
  EXPECT_EQ(on_shard([this] { return set_->troubles(); }).at(0).why, "this host has no user nosuch");
  EXPECT_FALSE(fs::exists(socket("VM-01")));
  want({wanted("VM-01")});
  EXPECT_TRUE(connect("VM-01"));
}

TEST_F(AdapterSetTest, AnAdapterOfTheConfigurationFileKeepsItsName) {
  ASSERT_TRUE(set_->add_static(
      {"VM-01", socket("static"), {2, 0, 0, 0, 0, 9}, HardwareVersion::k14, RoceVersion::kV2}));
  run();
  want({wanted("VM-01")});
  EXPECT_EQ(trouble_count(), 1U);
  EXPECT_FALSE(fs::exists(socket("VM-01")));
}

TEST_F(AdapterSetTest, AnAdapterOfTheConfigurationFileKeepsItsNameOnEachShard) {
  set_->reserve("VM-01");
  run();
  want({wanted("VM-01"), wanted("VM-02")});
  EXPECT_EQ(trouble_count(), 1U);
  EXPECT_FALSE(fs::exists(socket("VM-01")));
}

}  // namespace
}  // namespace pvrdma::adapters
