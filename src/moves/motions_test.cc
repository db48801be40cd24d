#include "moves/motions.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/event_ring.h"
#include "calls/call_fixture.h"
#include "calls/conversation.h"
#include "control/model/edits.h"
#include "control/model/records.h"
#include "motion/fake_adapter_side.h"
#include "support/fake_store.h"
#include "transport/tcp/raw_peer.h"
#include "vmm/fake_qemu.h"

namespace pvrdma::moves {
namespace {

using calls::Conversation;
using std::chrono::milliseconds;
using std::chrono::seconds;

// An AdapterSide without adapters.
class NoSide final : public motion::FakeAdapterSide {
 public:
  Result<void> act(std::string_view) override { return fail(ErrorKind::kNotFound, "no adapter"); }
};

// esx-01 has VM-01, which is on. The daemon under test is that of esx-02 unless a test says otherwise.
class MotionsTest : public testing::Test {
 protected:
  void SetUp() override {
    one_ = member("esx-01");
    two_ = member("esx-02");
    const auto made = one_->edit([](control::Inventory& inventory) -> Result<void> {
      namespace edits = control::edits;
      must(edits::create_dvs(inventory, {.name = "dvs1"}));
      must(edits::add_portgroup(inventory, "dvs1", "pg1", {.vlan = 7}));
      for (const int number : {1, 2}) {
        const std::string host = "esx-0" + std::to_string(number);
        must(edits::add_host(inventory, host));
        must(edits::add_vmk(inventory, host, "vmk2", "127.0.0." + std::to_string(number)));
        must(edits::set_advanced(inventory, host, edits::kPvrdmaVmknic, "vmk2"));
        must(edits::set_ruleset(inventory, host, edits::kRuleset, true, std::nullopt));
        must(edits::add_dvs_host(inventory, "dvs1", host));
      }
      must(edits::create_vm(inventory, {"VM-01", "esx-01", 14, 512, 512}));
      return edits::add_adapter(inventory, "VM-01", {.dvs = "dvs1", .portgroup = "pg1"});
    });
    ASSERT_TRUE(made) << made.error().message;
    for (const auto& plane : {one_.get(), two_.get()}) {
      control::LiveHost live;
      live.name = plane->host();
      live.instance = "once";
      plane->set_live(control::live_host_key(plane->host()), control::live_host_value(live));
    }
    one_->set_live(control::power_key("VM-01"), "esx-01");
    for (const auto& plane : {one_.get(), two_.get()}) {
      ASSERT_TRUE(until(
          [&] { return plane->inventory()->live_hosts.size() == 2 && plane->inventory()->is_on("VM-01"); }));
    }
  }

  static void must(const Result<void>& done) { ASSERT_TRUE(done) << done.error().message; }
  std::unique_ptr<control::Plane> member(const std::string& name) {
    auto store = std::make_unique<control::FakeStore>(cluster_);
    newest_store_ = store.get();
    return control::Plane::start(name, "i-" + name, std::move(store), nullptr).value();
  }
  static bool until(const std::function<bool()>& done) {
    const Instant end = Instant::now() + seconds(20);
    while (!done()) {
      if (Instant::now() >= end) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }
  // The motions of a host, and what other hosts need to call them.
  class Host {
   public:
    Host(control::Plane& plane, motion::AdapterSide& side, FindMonitor find_monitor)
        : Host(plane, side, std::move(find_monitor),
               [&plane](const std::string& host) { return route(plane, host); }) {}
    Host(control::Plane& plane, motion::AdapterSide& side, FindMonitor find_monitor,
         calls::FindRoute find_route)
        : outgoing_(plane.host(), std::move(find_route), nullptr, "cubic"),
          motions_(plane, side, outgoing_, incoming_, std::move(find_monitor), Duration{}) {}
    ~Host() { stop(); }
    void stop() {
      motions_.interrupt();
      incoming_.interrupt();
      motions_.stop();
      incoming_.stop();
    }
    // A call from `peer` to the motions.
    std::unique_ptr<Conversation> call(const std::string& peer) { return calls::call_of(incoming_, peer); }
    Motions* operator->() { return &motions_; }

   private:
    static std::optional<calls::Route> route(const control::Plane& plane, const std::string& host) {
      const auto inventory = plane.inventory();
      return calls::Route{*inventory->hosts.at(plane.host()).tagged_address(),
                          *inventory->hosts.at(host).tagged_address()};
    }

    calls::IncomingCalls incoming_;
    calls::HostCalls outgoing_;
    Motions motions_;
  };
  std::unique_ptr<Host> motions(control::Plane& plane, const std::string& monitor = {}) {
    return std::make_unique<Host>(plane, side_, [monitor](const std::string&) -> Result<std::string> {
      if (monitor.empty()) return fail(ErrorKind::kNotFound, "no monitor");
      return monitor;
    });
  }
  static std::size_t motion_events_after(std::uint64_t number) {
    const auto page = events::newest().page(number, events::EventRing::kSlots);
    return static_cast<std::size_t>(
        std::ranges::count(page.events, events::Type::kMotion, &events::Event::type));
  }
  static vmm::Json offer(const std::string& vm = "VM-01", const std::string& from = "esx-01") {
    return {{"say", "offer"},   {"format", motion::kPlainMotionFormat},
            {"motion", "m1"},   {"vm", vm},
            {"from", from},     {"to", "esx-02"},
            {"patience_s", 60u}};
  }
  // The reason why the motions refuse `text`; empty: they accept.
  static std::string refusal(Host& motions, const std::string& peer, const vmm::Json& text) {
    const auto there = motions.call(peer);
    EXPECT_TRUE(there->say_text(text));
    const auto answer = there->expect("accepted", Instant::now() + seconds(20));
    return answer ? std::string() : answer.error().message;
  }

  const std::shared_ptr<control::FakeCluster> cluster_ = std::make_shared<control::FakeCluster>();
  control::FakeStore* newest_store_ = nullptr;  // the store of the newest plane
  std::unique_ptr<control::Plane> one_;
  std::unique_ptr<control::Plane> two_;
  NoSide side_;
};

TEST_F(MotionsTest, TakesOffersOfVmsThatTheirHostHas) {
  const auto here = motions(*two_);
  EXPECT_EQ(refusal(*here, "esx-01", offer()), "");
  EXPECT_NE(refusal(*here, "esx-03", offer()).find("host esx-03 offers a motion from esx-01"),
            std::string::npos);
  EXPECT_NE(refusal(*here, "esx-03", offer("VM-01", "esx-03"))
                .find("does not know that VM VM-01 is on host esx-03"),
            std::string::npos);
  EXPECT_NE(refusal(*here, "esx-01", offer("VM-09")).find("VM-09"), std::string::npos);
  vmm::Json newer = offer();
  newer["format"] = motion::kMotionFormat;
  const auto is_accepted = [&] { return refusal(*here, "esx-01", newer).empty(); };
  EXPECT_TRUE(until(is_accepted)) << "when the one before has gone";
  newer["leader"] = "libvirt";
  EXPECT_TRUE(until(is_accepted));
  newer["leader"] = "somebody";
  EXPECT_NE(refusal(*here, "esx-01", newer).find("upgrade this one"), std::string::npos);
  newer["format"] = 4;
  EXPECT_NE(refusal(*here, "esx-01", newer).find("format 4"), std::string::npos);
}

TEST_F(MotionsTest, AVmComesByOneMotionAtATime) {
  const auto here = motions(*two_);
  auto first = here->call("esx-01");
  ASSERT_TRUE(first->say_text(offer()));
  ASSERT_TRUE(first->expect("accepted", Instant::now() + seconds(20)));
  EXPECT_NE(refusal(*here, "esx-01", offer()).find("by another motion"), std::string::npos);
  first.reset();
  EXPECT_TRUE(until([&] { return refusal(*here, "esx-01", offer()).empty(); })) << "the first has gone";
  EXPECT_GE((*here)->counters().not_come, 1U);
}

TEST_F(MotionsTest, AHostThatRepeatsOffersFillsNeitherLogNorEvents) {
  const auto here = motions(*two_);
  const std::uint64_t before = events::newest().last();
  const Instant begin = Instant::now();
  constexpr int kOffers = 60;
  for (int i = 0; i < kOffers; ++i) {
    ASSERT_TRUE(until([&] { return refusal(*here, "esx-01", offer()).empty(); }))
        << "the one before has gone";
  }
  ASSERT_TRUE(until([&] { return (*here)->counters().not_come == kOffers; }));
  const auto earned = static_cast<std::uint64_t>((Instant::now() - begin) / Arrivals::kToldInterval);
  const std::uint64_t told = events::newest().last() - before;
  EXPECT_GE(told, 2U);
  EXPECT_LE(told, 2 * (Arrivals::kToldBurst + earned)) << "two for each offer that is told";
}

// One motion must not serve two VMs: the first VM's memory would be lost while its motion waits for it.
TEST_F(MotionsTest, AMotionIsOneVms) {
  ASSERT_TRUE(one_->edit([](control::Inventory& inventory) {
    return control::edits::create_vm(inventory, {"VM-02", "esx-01", 14, 512, 512});
  }));
  ASSERT_TRUE(until([&] { return two_->inventory()->vms.contains("VM-02"); }));
  const auto here = motions(*two_);
  const auto first = here->call("esx-01");
  ASSERT_TRUE(first->say_text(offer()));
  ASSERT_TRUE(first->expect("accepted", Instant::now() + seconds(20)));
  vmm::Json other = offer("VM-02");
  EXPECT_NE(refusal(*here, "esx-01", other)
                .find("the motion m1, which is to bring VM VM-02 to host esx-02, belongs to another"),
            std::string::npos);
  other["question"] = true;
  EXPECT_NE(refusal(*here, "esx-01", other), "");
  other["motion"] = "m2";
  EXPECT_EQ(refusal(*here, "esx-01", other), "");
}

TEST_F(MotionsTest, WhatIsNoOfferEndsTheCall) {
  const auto here = motions(*two_);
  for (const vmm::Json& text :
       {vmm::Json{{"say", "loaded"}}, vmm::Json{{"say", "memory"}, {"motion", "m9"}}}) {
    const auto there = here->call("esx-01");
    ASSERT_TRUE(there->say_text(text));
    auto heard = there->listen(Instant::now() + seconds(20));
    if (heard && *heard) heard = there->listen(Instant::now() + seconds(20));  // skips "send"
    ASSERT_FALSE(heard) << text.dump();
  }
}

TEST_F(MotionsTest, SaysWhyAVmCannotLeave) {
  const auto here = motions(*one_);
  const auto why = [&](const motion::MotionWish& wish) {
    const auto started = (*here)->start(wish);
    return started ? std::string() : started.error().message;
  };
  EXPECT_NE(why({.vm = "VM-09", .to = "esx-02"}).find("VM-09"), std::string::npos);
  EXPECT_NE(
      why({.vm = "VM-01", .to = "esx-02", .monitor = "/m", .max_pause = seconds(6)}).find("at most 5000"),
      std::string::npos);
  EXPECT_NE((*motions(*two_))
                ->start({.vm = "VM-01", .to = "esx-02", .monitor = "/m"})
                .error()
                .message.find("ask the pvrdmad there"),
            std::string::npos);
  EXPECT_EQ((*here)->cancel("VM-01").error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE((*here)->list().empty());
  ASSERT_EQ(why({.vm = "VM-01", .to = "esx-02", .monitor = "/m"}), "");
  ASSERT_TRUE(until([&] { return (*here)->list().at(0).state == "failed"; }));
  EXPECT_NE((*here)->list().at(0).error.find("host esx-02 at 127.0.0.2 cannot be called"), std::string::npos)
      << (*here)->list().at(0).error;
  EXPECT_EQ((*here)->counters().stayed, 1U);
}

TEST_F(MotionsTest, ACheckSaysWhatAFailureMeansForTheClient) {
  using transport::tcp::address_of;
  const auto kind = [](Host& here, const std::string& vm) {
    const auto checked = here->check({.vm = vm, .to = "esx-02"});
    EXPECT_FALSE(checked);
    return checked ? ErrorKind::kInternal : checked.error().kind;
  };
  EXPECT_EQ(kind(*motions(*one_), "VM-09"), ErrorKind::kNotFound);
  EXPECT_EQ(kind(*motions(*one_), "VM-01"), ErrorKind::kNotFound) << "there is no adapter";
  Host here(
      *one_, side_, [](const std::string&) -> Result<std::string> { return std::string("/nowhere/qmp"); },
      [](const std::string&) {
        return calls::Route{address_of(1), address_of(2)};
      });
  EXPECT_EQ(kind(here, "VM-01"), ErrorKind::kUnavailable) << "the other host cannot be called";
  transport::tcp::RawListener listener(address_of(2));
  std::thread there([&] { EXPECT_TRUE(listener.accept_as("esx-02").ended()); });
  EXPECT_EQ(kind(here, "VM-01"), ErrorKind::kConflict) << "the VM has no QEMU";
  there.join();
}

TEST_F(MotionsTest, NoneBeginsWithoutTheStore) {
  const auto here = motions(*two_);
  newest_store_->go_away("no route");
  const motion::MotionWish wish{.vm = "VM-01", .to = "esx-02", .monitor = "/m"};
  const auto checked = (*here)->check(wish);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(checked.error().message.find("store fake cannot be reached (no route)"), std::string::npos)
      << checked.error().message;
  EXPECT_FALSE((*here)->start(wish));
  EXPECT_TRUE((*here)->list().empty());
}

TEST_F(MotionsTest, AMotionWhoseHostsHaveBothGoneMayBeCancelledAnywhere) {
  const auto three = member("esx-03");
  const auto begin = [this] {
    return one_->edit([](control::Inventory& inventory) {
      return control::edits::begin_motion(inventory, "VM-01", {"earlier", "esx-02"});
    });
  };
  ASSERT_TRUE(begin());
  const auto here = motions(*three);
  ASSERT_TRUE(until([&] { return three->inventory()->vms.at("VM-01").motion.has_value(); }));
  EXPECT_NE((*here)->cancel("VM-01").error().message.find("cancel it on host esx-01"), std::string::npos);
  for (const auto& plane : {one_.get(), two_.get()}) plane->clear_live(control::live_host_key(plane->host()));
  ASSERT_TRUE(until([&] { return three->inventory()->live_hosts.empty(); }));
  const auto cancelled = (*here)->cancel("VM-01");
  EXPECT_TRUE(cancelled) << cancelled.error().message;
  EXPECT_FALSE(three->inventory()->vms.at("VM-01").motion);
}

TEST_F(MotionsTest, AMotionThatNobodyLeadsIsEnded) {
  ASSERT_TRUE(one_->edit([](control::Inventory& inventory) {
    return control::edits::begin_motion(inventory, "VM-01", {"earlier", "esx-02"});
  }));
  const auto there = motions(*two_);
  const auto here = motions(*one_);
  EXPECT_TRUE(until([&] { return !one_->inventory()->vms.at("VM-01").motion; }));
  EXPECT_EQ(one_->inventory()->vms.at("VM-01").host, "esx-01");
}

TEST_F(MotionsTest, AVmThatStandsForNobodyGoesOn) {
  using vmm::FakeQemu;
  ASSERT_TRUE(one_->edit([](control::Inventory& inventory) {
    return control::edits::begin_motion(inventory, "VM-01", {"earlier", "esx-02"});
  }));
  const std::string path = testing::TempDir() + "motions_test_" + std::to_string(::getpid());
  std::atomic<bool> cancelled = false;
  std::atomic<bool> runs = false;
  const FakeQemu qemu(path, [&](const std::string& command, const vmm::Json&) -> std::optional<vmm::Json> {
    if (command == "query-status")
      return FakeQemu::returning({{"status", runs ? "running" : "finish-migrate"}});
    if (command == "migrate_cancel") cancelled = true;
    if (command == "query-migrate")
      return FakeQemu::returning({{"status", cancelled ? "cancelled" : "pre-switchover"}});
    if (command == "cont") runs = cancelled.load();
    return FakeQemu::returning();
  });
  const auto here = motions(*one_, path);
  EXPECT_TRUE(until([&] { return runs.load(); }));
  EXPECT_FALSE(one_->inventory()->vms.at("VM-01").motion);
}

TEST_F(MotionsTest, AVmThatWasPausedStaysSo) {
  using vmm::FakeQemu;
  ASSERT_TRUE(one_->edit([](control::Inventory& inventory) {
    return control::edits::begin_motion(inventory, "VM-01", {"earlier", "esx-02"});
  }));
  const std::string path = testing::TempDir() + "motions_test_paused_" + std::to_string(::getpid());
  std::atomic<bool> cancelled = false;
  std::atomic<int> looks = 0;
  std::atomic<bool> continued = false;
  const FakeQemu qemu(path, [&](const std::string& command, const vmm::Json&) -> std::optional<vmm::Json> {
    if (command == "query-status") {
      if (cancelled) ++looks;
      return FakeQemu::returning({{"status", cancelled ? "paused" : "finish-migrate"}});
    }
    if (command == "migrate_cancel") cancelled = true;
    if (command == "query-migrate")
      return FakeQemu::returning({{"status", cancelled ? "cancelled" : "pre-switchover"}});
    if (command == "cont") continued = true;
    return FakeQemu::returning();
  });
  const auto here = motions(*one_, path);
  ASSERT_TRUE(until([&] { return looks > 0; }));
  here->stop();
  EXPECT_FALSE(continued);
}

TEST_F(MotionsTest, AMotionThatLibvirtLedIsTheOtherHostsToEndAndItsVmLibvirtsToLetGoOn) {
  using vmm::FakeQemu;
  const std::string id = std::string(kLedPrefix) + "earlier";
  ASSERT_TRUE(one_->edit([&id](control::Inventory& inventory) {
    return control::edits::begin_motion(inventory, "VM-01", {id, "esx-02"});
  }));
  const std::string path = testing::TempDir() + "motions_test_led_" + std::to_string(::getpid());
  std::atomic<bool> was_asked = false;
  const FakeQemu qemu(path, [&](const std::string&, const vmm::Json&) -> std::optional<vmm::Json> {
    was_asked = true;
    return FakeQemu::returning({{"status", "postmigrate"}});
  });
  const auto here = motions(*one_, path);
  std::this_thread::sleep_for(milliseconds(1500));  // the records are checked each second
  EXPECT_TRUE(one_->inventory()->vms.at("VM-01").motion) << "the other host lives";
  EXPECT_NE((*here)->cancel("VM-01").error().message.find("the pvrdmad of host esx-02 ends it"),
            std::string::npos);
  two_->clear_live(control::live_host_key("esx-02"));
  EXPECT_TRUE(until([&] { return !one_->inventory()->vms.at("VM-01").motion; }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(was_asked);
}

TEST_F(MotionsTest, AQemuThatDoesNotAnswerHoldsUpNoCallOfAnotherHost) {
  using vmm::FakeQemu;
  ASSERT_TRUE(one_->edit([](control::Inventory& inventory) {
    return control::edits::begin_motion(inventory, "VM-01", {std::string(kLedPrefix) + "earlier", "esx-02"});
  }));
  ASSERT_TRUE(until([&] { return two_->inventory()->vms.at("VM-01").motion.has_value(); }));
  const std::string path = testing::TempDir() + "motions_test_silent_" + std::to_string(::getpid());
  std::atomic<bool> was_asked = false;
  std::atomic<bool> may_answer = false;
  const FakeQemu qemu(path, [&](const std::string&, const vmm::Json&) -> std::optional<vmm::Json> {
    was_asked = true;
    EXPECT_TRUE(until([&] { return may_answer.load(); }));
    return std::nullopt;
  });
  const auto here = motions(*two_, path);
  ASSERT_TRUE(until([&] { return was_asked.load(); }));
  const auto there = here->call("esx-03");
  ASSERT_TRUE(there->say_text(offer()));
  const auto answer = there->expect("accepted", Instant::now() + vmm::Monitor::kPatience / 2);
  may_answer = true;
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("offers a motion from esx-01"), std::string::npos)
      << answer.error().message;
}

TEST_F(MotionsTest, OneThatStopsAsksNoFurtherQemus) {
  using vmm::FakeQemu;
  ASSERT_TRUE(one_->edit([](control::Inventory& inventory) -> Result<void> {
    must(control::edits::create_vm(inventory, {"VM-02", "esx-01", 14, 512, 512}));
    return control::edits::add_adapter(inventory, "VM-02", {.dvs = "dvs1", .portgroup = "pg1"});
  }));
  one_->set_live(control::power_key("VM-02"), "esx-01");
  ASSERT_TRUE(until([&] { return one_->inventory()->is_on("VM-02"); }));
  ASSERT_TRUE(one_->edit([](control::Inventory& inventory) -> Result<void> {
    must(control::edits::begin_motion(inventory, "VM-01", {std::string(kLedPrefix) + "one", "esx-02"}));
    return control::edits::begin_motion(inventory, "VM-02", {std::string(kLedPrefix) + "two", "esx-02"});
  }));
  ASSERT_TRUE(until([&] {
    const auto inventory = two_->inventory();
    return inventory->vms.contains("VM-02") && inventory->vms.at("VM-02").motion.has_value();
  }));
  const std::string path = testing::TempDir() + "motions_test_stops_" + std::to_string(::getpid());
  std::atomic<bool> was_asked = false;
  std::atomic<bool> may_answer = false;
  const FakeQemu qemu(path, [&](const std::string&, const vmm::Json&) -> std::optional<vmm::Json> {
    was_asked = true;
    EXPECT_TRUE(until([&] { return may_answer.load(); }));
    return FakeQemu::returning({{"status", "paused"}});
  });
  std::atomic<int> looked_for = 0;
  Host here(*two_, side_, [&](const std::string&) -> Result<std::string> {
    ++looked_for;
    return path;
  });
  ASSERT_TRUE(until([&] { return was_asked.load(); }));
  std::thread stopping([&] { here.stop(); });
  const auto takes_calls = [&] {
    return here.call("esx-03")->listen(Instant::now() + milliseconds(50)).has_value();
  };
  EXPECT_TRUE(until([&] { return !takes_calls(); }));
  may_answer = true;
  stopping.join();
  EXPECT_EQ(looked_for, 1);
}

// The daemon was restarted; its previous process had followed libvirt.
TEST_F(MotionsTest, AVmThatLibvirtLedHereIsWhereLibvirtHasIt) {
  using vmm::FakeQemu;
  const std::string id = std::string(kLedPrefix) + "earlier";
  const auto begin = [&] {
    return one_->edit([&id](control::Inventory& inventory) {
      return control::edits::begin_motion(inventory, "VM-01", {id, "esx-02"});
    });
  };
  const auto record = [this] { return two_->inventory()->vms.at("VM-01"); };
  const auto is_known = [&] { return until([&] { return record().motion.has_value(); }); };
  {
    ASSERT_TRUE(begin());
    ASSERT_TRUE(is_known());
    const auto here = motions(*two_);
    EXPECT_TRUE(until([&] { return !record().motion; })) << "no QEMU is here";
    EXPECT_EQ(record().host, "esx-01");
  }
  const std::string path = testing::TempDir() + "motions_test_came_" + std::to_string(::getpid());
  std::atomic<bool> runs = false;
  std::atomic<int> looks = 0;
  const FakeQemu qemu(path, [&](const std::string&, const vmm::Json&) -> std::optional<vmm::Json> {
    ++looks;
    return FakeQemu::returning({{"status", runs ? "running" : "paused"}});
  });
  ASSERT_TRUE(begin());
  ASSERT_TRUE(is_known());
  const std::uint64_t before = events::newest().last();
  const auto here = motions(*two_, path);
  ASSERT_TRUE(until([&] { return motion_events_after(before) > 0; })) << "it waits for libvirt";
  const int looks_until_then = looks;
  ASSERT_TRUE(until([&] { return looks > looks_until_then + 1; }));
  EXPECT_TRUE(record().motion) << "it stands: libvirt may let it run here or there";
  runs = true;
  EXPECT_TRUE(until([&] { return !record().motion; }));
  EXPECT_EQ(record().host, "esx-02");
  EXPECT_TRUE(until([&] { return motion_events_after(before) > 1; })) << "it runs here";
  EXPECT_EQ(motion_events_after(before), 2U) << "the reminder is an event only once";
}

}  // namespace
}  // namespace pvrdma::moves
