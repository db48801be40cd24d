// Tests of a source that says the wrong things.
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "motion/destination.h"
#include "motion/vm_world_fixture.h"

namespace pvrdma::motion {
namespace {

using calls::Conversation;
using std::chrono::seconds;
using vmm::Json;

// One of the two ends of a connection.
class End final : public ByteChannel {
 public:
  struct Wire {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::byte> to[2];  // guarded, like the next member
    bool cut = false;
  };
  End(std::shared_ptr<Wire> wire, int number) : wire_(std::move(wire)), number_(number) {}
  ~End() override { interrupt(); }
  Result<void> send(std::span<const std::byte> bytes, Instant) override {
    const std::lock_guard lock(wire_->mutex);
    if (wire_->cut) return fail(EPIPE, "cut");
    wire_->to[1 - number_].insert(wire_->to[1 - number_].end(), bytes.begin(), bytes.end());
    wire_->changed.notify_all();
    return {};
  }
  Result<std::size_t> receive(std::span<std::byte> into, Instant until) override {
    std::unique_lock lock(wire_->mutex);
    auto& queue = wire_->to[number_];
    wire_->changed.wait_for(lock, std::max<Duration>(until - Instant::now(), Duration{}),
                            [&] { return wire_->cut || !queue.empty(); });
    if (queue.empty()) return wire_->cut ? Result<std::size_t>(0) : fail(ETIMEDOUT, "nothing came");
    const std::size_t bytes = std::min(into.size(), queue.size());
    std::copy_n(queue.begin(), bytes, into.begin());
    queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(bytes));
    return bytes;
  }
  void interrupt() override {
    const std::lock_guard lock(wire_->mutex);
    wire_->cut = true;
    wire_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Wire> wire_;
  const int number_;
};

// Accepts everything except a state of a chosen size and pages beyond the RAM.
class Side final : public FakeAdapterSide {
 public:
  Result<Clients> clients(const std::string&) override { return Clients{.has_vmm = true, .awaits_vm = true}; }
  Result<vmm::PciImage> load(const std::string&, std::vector<std::byte> state) override {
    if (state.size() == refused_bytes)
      return fail(ErrorKind::kInvalid, "adapter VM-01 cannot go on from this state");
    return vmm::PciImage{};
  }
  Result<void> put_pages(const std::string&, Pages pages) override {
    if (pages.address >= kRamEnd) return fail(EFAULT, "its VM has no memory here");
    put_bytes += pages.bytes.size();
    return {};
  }

  static constexpr std::uint64_t kRamEnd = 1u << 20;
  std::size_t refused_bytes = 7;  // the size of the refused state
  std::size_t put_bytes = 0;
};

// An arbiter that always answers that the VM stays.
class Stays final : public Arbiter {
 public:
  Result<void> begin(const Motion&) override { return {}; }
  Result<void> commit(const Motion&) override { return fail(ECANCELED, "it was ended"); }
  Result<void> end(const Motion&) override { return {}; }
  Result<Verdict> look(const Motion&) override { return Verdict::kStays; }
  Result<bool> source_is_gone(const Motion&) override { return false; }
};

class LibvirtLedDestinationTest : public testing::Test {
 protected:
  // `talk` plays the source. Returns the error of the destination, which it must also have sent to the
  // source.
  std::string refusal(const std::function<void(Conversation& there)>& talk) {
    const auto wire = std::make_shared<End::Wire>();
    Conversation here(std::make_unique<End>(wire, 0), "esx-01");
    Conversation there(std::make_unique<End>(wire, 1), "esx-02");
    const auto destination = Destination::create(
        Offer{.motion = {"m1", "VM-01", "esx-01", "esx-02"},
              .patience = seconds(5),
              .leader = Leader::kLibvirt},
        [this]() -> Result<std::string> { return qemu_.path(); }, side_, arbiter_, here,
        [](Instant) -> Result<std::unique_ptr<ByteChannel>> { return fail("no second call"); },
        [] { return false; });
    std::string outcome;
    std::thread thread([&] {
      const auto report = destination->run();
      outcome = report ? "" : report.error().message;
    });
    EXPECT_TRUE(there.say("begun"));
    EXPECT_TRUE(there.expect("qemu", until()));
    talk(there);
    const auto said = there.expect("refused", until());
    thread.join();
    calls::Reason reason;
    EXPECT_TRUE(said && said->read("the refusal", reason));
    EXPECT_EQ(reason.why, outcome);
    return outcome;
  }
  static Instant until() { return Instant::now() + seconds(20); }
  // Plays the source up to the destination's "memory".
  void come(Conversation& there) {
    EXPECT_TRUE(there.say("pci", PciMessage{}, std::vector<std::byte>(3)));
    EXPECT_TRUE(there.expect("restored", until()));
    qemu_.set(runs_there_ ? "running" : "paused", "completed");
    EXPECT_TRUE(there.say("state", std::vector<std::byte>(3)));
    if (runs_there_) return;
    EXPECT_TRUE(there.expect("memory", until()));
  }
  std::vector<std::string> ended() {
    std::vector<std::string> ended = qemu_.commands();
    std::erase_if(ended, [](const std::string& command) { return command != "quit" && command != "yank"; });
    return ended;
  }

  Side side_;
  Stays arbiter_;
  bool runs_there_ = false;
  OneVmQemu qemu_{VmWorld::path("destination"), {}, "inmigrate"};
};

TEST_F(LibvirtLedDestinationTest, PagesThatAreNoneAreRefused) {
  const std::vector<std::byte> page(4096);
  const std::vector<std::byte> too_many(AdapterSide::kPagesBytesMax + 1);
  const std::pair<Json, const std::vector<std::byte>&> cases[] = {
      {{{"say", "pages"}}, page},
      {{{"say", "pages"}, {"at", -4096}}, page},
      {{{"say", "pages"}, {"at", "0"}}, page},
      {{{"say", "pages"}, {"at", 0u}}, too_many},
  };
  for (const auto& [text, bytes] : cases) {
    qemu_.set("inmigrate", "active");
    const std::string why = refusal([&](Conversation& there) {
      come(there);
      EXPECT_TRUE(there.say_text(text, bytes));
    });
    EXPECT_EQ(why, "host esx-01 sends pages of VM VM-01 without an address, or more than 1048576 bytes")
        << text.dump();
  }
  EXPECT_EQ(side_.put_bytes, 0U);
  EXPECT_TRUE(ended().empty()) << "libvirt has the VM here, and decides";
}

TEST_F(LibvirtLedDestinationTest, PagesOfNoMemoryAreRefused) {
  const std::string why = refusal([&](Conversation& there) {
    come(there);
    EXPECT_TRUE(there.say("pages", PagesMessage{0}, std::vector<std::byte>(4096)));
    EXPECT_TRUE(there.say("pages", PagesMessage{Side::kRamEnd}, std::vector<std::byte>(4096)));
  });
  EXPECT_EQ(why, "its VM has no memory here");
  EXPECT_EQ(side_.put_bytes, 4096U);
}

TEST_F(LibvirtLedDestinationTest, APciStateThatIsNoneIsRefused) {
  const std::string config(512, '0');
  const std::pair<Json, const char*> cases[] = {
      {{{"say", "pci"}}, "the PCI state lacks \"pci\""},
      {{{"say", "pci"}, {"pci", config}}, "the PCI state's \"pci\" is not an object"},
      {{{"say", "pci"}, {"pci", Json::object()}}, "the PCI state lacks \"pci.config\""},
      {{{"say", "pci"}, {"pci", {{"config", config}, {"msix_table", "00"}}}},
       "the PCI state's \"pci.msix_table\" is not 48 bytes in hexadecimal digits"},
  };
  for (const auto& [text, why] : cases) {
    qemu_.set("inmigrate", "setup");
    EXPECT_EQ(refusal([&, text = &text](Conversation& there) { EXPECT_TRUE(there.say_text(*text)); }), why);
    EXPECT_EQ(ended().back(), "quit");
  }
}

TEST_F(LibvirtLedDestinationTest, AStateThatDoesNotSayHowTheVmIsLeftIsRefused) {
  const std::string why = refusal([&](Conversation& there) {
    EXPECT_TRUE(there.say("pci", PciMessage{}, std::vector<std::byte>(3)));
    EXPECT_TRUE(there.expect("restored", until()));
    qemu_.set("paused", "completed");
    EXPECT_TRUE(there.say_text({{"say", "state"}, {"paused", 7}}, std::vector<std::byte>(3)));
  });
  EXPECT_EQ(why, "the message of the state's \"paused\" is not true or false");
}

TEST_F(LibvirtLedDestinationTest, WhatIsNotDueIsRefused) {
  const std::string why = refusal([&](Conversation& there) {
    come(there);
    EXPECT_TRUE(there.say("state"));
  });
  EXPECT_NE(why.find("says \"state\", which was not expected"), std::string::npos) << why;
}

TEST_F(LibvirtLedDestinationTest, AVmThatRunsBeforeItsAdapterIsHereIsLoud) {
  runs_there_ = true;
  const std::string why = refusal([&](Conversation& there) { come(there); });
  EXPECT_NE(why.find("virsh migrate --suspend"), std::string::npos) << why;
}

TEST_F(LibvirtLedDestinationTest, ADraftThatIsRefusedEndsLibvirtsMigration) {
  for (const auto& [migration, command] :
       {std::pair("", "quit"), std::pair("setup", "quit"), std::pair("active", "yank")}) {
    qemu_.set("inmigrate", migration);
    const std::string why = refusal([&](Conversation& there) {
      EXPECT_TRUE(there.say("pci", PciMessage{}, std::vector<std::byte>(side_.refused_bytes)));
    });
    EXPECT_EQ(why, "adapter VM-01 cannot go on from this state");
    EXPECT_EQ(ended().back(), command);
  }
}

}  // namespace
}  // namespace pvrdma::motion
