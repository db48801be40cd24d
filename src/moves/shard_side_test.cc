// Tests on a real loop. The clients answer reads and writes of their MSI-X tables as a VMM does.
#include "moves/shard_side.h"

#include <array>
#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "moves/upgrades.h"
#include "transport/local/local.h"
#include "vfio_user/client.h"

namespace pvrdma::moves {
namespace {

using motion::AdapterSide;
using Save = AdapterSide::Save;
using Successor = AdapterSide::Successor;
using enum AdapterSide::Vmm;
using namespace std::chrono_literals;

template <typename T>
bool is_off(const Result<T>& result) {
  return !result && result.error().message == "adapter VM-01: its VM is off: no VMM is connected";
}

constexpr std::uint32_t kConfig = 7;
constexpr std::uint32_t kBar = 0xfe00'0000;

class Vmm final : private vfio_user::ClientMemory {
 public:
  explicit Vmm(const std::string& socket) : client_(vfio_user::Client::connect(socket).value()) {
    client_->set_memory(this);
  }
  ~Vmm() { stop(); }
  // Call it before answering(); after answering() call neither this nor anything else of the client.
  void set_pci(std::uint16_t command) {
    EXPECT_TRUE(client_->region_write(kConfig, 0x10, std::as_bytes(std::span(&kBar, 1))));
    EXPECT_TRUE(client_->region_write(kConfig, 0x04, std::as_bytes(std::span(&command, 1))));
  }
  void map(std::uint64_t address, std::uint64_t size) {
    const Fd file(::memfd_create("ram", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
    EXPECT_TRUE(
        client_->dma_map({.iova = address, .size = size, .readable = true, .writable = true}, file.get()));
  }
  void set_migration_state(vfio_user::MigrationState state) {
    EXPECT_TRUE(client_->set_migration_state(state));
  }
  void answering() {
    thread_ = std::thread([this] {
      while (!stop_ && client_->answer_requests(5ms)) {
      }
    });
  }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    client_.reset();
  }
  void refuse(int error) { error_ = error; }
  std::uint8_t first_byte() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::uint8_t>(table_[0]);
  }

 private:
  int read(std::uint64_t address, std::span<std::byte> out) override {
    const std::lock_guard lock(mutex_);
    if (error_ != 0 || address != kBar || out.size() != table_.size())
      return error_ != 0 ? error_.load() : EFAULT;
    std::copy(table_.begin(), table_.end(), out.begin());
    return 0;
  }
  int write(std::uint64_t address, std::span<const std::byte> data) override {
    const std::lock_guard lock(mutex_);
    if (error_ != 0 || address != kBar || data.size() != table_.size())
      return error_ != 0 ? error_.load() : EFAULT;
    std::copy(data.begin(), data.end(), table_.begin());
    return 0;
  }

  std::unique_ptr<vfio_user::Client> client_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> error_ = 0;
  std::mutex mutex_;
  std::array<std::byte, vmm::kMsixTableBytes> table_{std::byte{0x5a}};  // guarded
  std::thread thread_;
};

class LocalWithoutMemory final : public transport::Local {
 public:
  void join(verbs::Engine& /*engine*/) override {
    if (has_none) throw std::bad_alloc();
  }
  std::atomic<bool> has_none = false;
};

class ShardSideTest : public testing::Test {
 protected:
  void SetUp() override {
    fabric_.use(local_);
    control::AdapterConfig config{
        "VM-01", socket_, {2, 0, 0, 0, 0, 9}, HardwareVersion::k14, RoceVersion::kV2};
    ASSERT_TRUE(set_->add_static(config));
    ASSERT_TRUE(set_->start());
    thread_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    loop_->stop();
    thread_.join();
    set_.reset();
  }
  std::unique_ptr<Vmm> connect(std::uint16_t command) {
    auto vmm = std::make_unique<Vmm>(socket_);
    vmm->set_pci(command);
    vmm->answering();
    return vmm;
  }

  const std::string socket_ = testing::TempDir() + "shard_side_" + std::to_string(::getpid()) + ".sock";
  SteadyClock clock_;
  LocalWithoutMemory local_;
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  fabric::Fabric fabric_{clock_};
  std::unique_ptr<adapters::AdapterSet> set_ =
      std::make_unique<adapters::AdapterSet>(fabric_, *loop_, clock_);
  const adapters::Shards shards_{{{*loop_, *set_, fabric_}}};
  ShardSide side_{shards_, clock_};
  std::thread thread_;
};

TEST_F(ShardSideTest, TheSuccessorGetsThePciStateAndTheAdapter) {
  const auto old = connect(0x0406);
  ASSERT_TRUE(side_.expect_successor("VM-01"));
  EXPECT_EQ(side_.clients("VM-01")->successor, Successor::kExpected);
  const auto next = connect(0x0402);
  EXPECT_EQ(side_.clients("VM-01")->successor, Successor::kIsHere);
  const auto image = side_.pci_image("VM-01");
  ASSERT_TRUE(image) << image.error().message;
  ASSERT_TRUE(image->msix_table);
  EXPECT_EQ((*image->msix_table)[0], 0x5a);
  EXPECT_NE(side_.check_pci("VM-01", kSuccessor, *image).error().message.find("has another PCI state"),
            std::string::npos);
  vmm::PciImage other = *image;
  (*other.msix_table)[0] = 0x77;
  EXPECT_EQ(side_.write_msix_table("VM-01", kSuccessor, other).error().message,
            "adapter VM-01: its MSI-X table has no address in its VMM");
  EXPECT_TRUE(side_.switch_over("VM-01"));
  EXPECT_TRUE(side_.write_msix_table("VM-01", kSuccessor, other)) << "the old one is the successor now";
  EXPECT_EQ(old->first_byte(), 0x77);
  EXPECT_TRUE(side_.switch_over("VM-01"));
  EXPECT_TRUE(side_.resume("VM-01"));
  EXPECT_TRUE(side_.end_successor("VM-01"));
  EXPECT_EQ(side_.clients("VM-01")->successor, Successor::kNone);
}

TEST_F(ShardSideTest, WithoutMemoryTheAdapterStaysWhereItIs) {
  const auto old = connect(0x0406);
  ASSERT_TRUE(side_.expect_successor("VM-01"));
  const auto next = connect(0x0402);
  local_.has_none = true;
  EXPECT_EQ(side_.switch_over("VM-01").error().code, ENOMEM);
  local_.has_none = false;
  const auto takes_messages = [](adapters::ServedAdapter& served) -> Result<bool> {
    return served.port().takes_messages();
  };
  EXPECT_TRUE(shards_.on("VM-01", takes_messages, "looking at its port").value());
  EXPECT_TRUE(side_.switch_over("VM-01"));
  EXPECT_TRUE(shards_.on("VM-01", takes_messages, "looking at its port").value());
}

TEST_F(ShardSideTest, ATableThatTheVmmDoesNotGiveIsAnError) {
  const auto vmm = connect(0x0406);
  vmm->refuse(EFAULT);
  EXPECT_EQ(side_.pci_image("VM-01").error().message,
            "adapter VM-01: its VMM does not let the MSI-X table be read: Bad address");
}

TEST_F(ShardSideTest, AnotherVmmGoesOnWithWhatWasSaved) {
  std::vector<std::byte> state;
  {
    const auto old = connect(0x0406);
    EXPECT_EQ(side_.save("VM-01", Save::kState, {}).error().code, EPIPE) << "it is not stopped";
    ASSERT_TRUE(side_.stop("VM-01"));
    EXPECT_EQ(side_.stop("VM-01").error().kind, ErrorKind::kConflict);
    const auto image = side_.pci_image("VM-01");
    ASSERT_TRUE(image) << image.error().message;
    state = side_.save("VM-01", Save::kState, *image).value();
  }
  while (!is_off(side_.stop("VM-01"))) std::this_thread::sleep_for(1ms);
  const auto next = connect(0x0406);
  std::vector<std::byte> cut(state.begin(), state.end() - 1);
  const auto refused = side_.load("VM-01", cut);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("adapter VM-01 cannot go on from this state: "), std::string::npos)
      << refused.error().message;
  const auto image = side_.load("VM-01", state);
  ASSERT_TRUE(image) << image.error().message;
  ASSERT_TRUE(image->msix_table);
  EXPECT_EQ((*image->msix_table)[0], 0x5a);
  vmm::PciImage other = *image;
  (*other.msix_table)[0] = 0x77;
  ASSERT_TRUE(side_.write_msix_table("VM-01", kOwn, other));
  EXPECT_EQ(next->first_byte(), 0x77);
  EXPECT_NE(side_.check_pci("VM-01", kOwn, *image).error().message.find("has another PCI state"),
            std::string::npos);
  EXPECT_TRUE(side_.check_pci("VM-01", kOwn, other));
  EXPECT_TRUE(side_.go_on("VM-01"));
  EXPECT_TRUE(side_.resume("VM-01"));
  EXPECT_TRUE(side_.stop("VM-01")) << "it works";
}

TEST_F(ShardSideTest, AnAdapterOutlivesItsVmmAndGivesWhatItHasWritten) {
  constexpr std::uint64_t kRam = 0x10'0000;
  constexpr std::uint64_t kRamBytes = 4u << 20;
  auto vmm = std::make_unique<Vmm>(socket_);
  vmm->map(kRam, kRamBytes);
  vmm->set_pci(0x0406);
  vmm->answering();
  ASSERT_TRUE(side_.begin_log("VM-01"));
  ASSERT_TRUE(side_.outlive_vmm("VM-01"));
  const std::vector<std::byte> large(AdapterSide::kPagesBytesMax + 4096, std::byte{7});
  ASSERT_TRUE(side_.put_pages("VM-01", {kRam, std::vector<std::byte>(4096, std::byte{5})}));
  ASSERT_TRUE(side_.put_pages("VM-01", {kRam + (2u << 20), large}));
  EXPECT_EQ(side_.put_pages("VM-01", {kRam + kRamBytes, large}).error().code, EFAULT);
  const auto image = side_.pci_image("VM-01");
  ASSERT_TRUE(image);
  EXPECT_TRUE(side_.save("VM-01", Save::kDraft, *image)) << "it works, and goes on working";
  EXPECT_TRUE(side_.clients("VM-01")->has_vmm);
  vmm->stop();
  while (side_.clients("VM-01")->has_vmm) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(side_.stop("VM-01")) << "it may be stopped already";
  EXPECT_TRUE(side_.save("VM-01", Save::kState, *image));
  std::vector<std::pair<std::uint64_t, std::size_t>> given;
  const auto take = [&](const AdapterSide::Pages& pages) -> Result<void> {
    given.emplace_back(pages.address, pages.bytes.size());
    EXPECT_EQ(pages.bytes.front(), pages.address == kRam ? std::byte{5} : std::byte{7});
    return {};
  };
  ASSERT_TRUE(side_.give_pages("VM-01", take));
  EXPECT_EQ(given, (std::vector<std::pair<std::uint64_t, std::size_t>>{
                       {kRam, 4096},
                       {kRam + (2u << 20), AdapterSide::kPagesBytesMax},
                       {kRam + (2u << 20) + AdapterSide::kPagesBytesMax, 4096}}));
  given.clear();
  ASSERT_TRUE(side_.give_pages("VM-01", take));
  EXPECT_TRUE(given.empty());
  ASSERT_TRUE(side_.end_with_vmm("VM-01"));
  while (!is_off(side_.stop("VM-01"))) std::this_thread::sleep_for(1ms);
  const auto next = connect(0x0406);
  EXPECT_TRUE(side_.stop("VM-01")) << "another one may have it";
}

// The adapter can be stopped in each state that its VMM may have put it into.
TEST_F(ShardSideTest, AVmmThatIsOutlivedCannotKeepItsAdapterFromBeingStopped) {
  using enum vfio_user::MigrationState;
  for (const auto& states : {std::vector{kStop}, {kStop, kStopCopy}, {kStop, kResuming}}) {
    auto vmm = std::make_unique<Vmm>(socket_);
    for (const auto state : states) vmm->set_migration_state(state);
    vmm->answering();
    ASSERT_TRUE(side_.outlive_vmm("VM-01"));
    EXPECT_TRUE(side_.stop("VM-01"));
    EXPECT_TRUE(side_.save("VM-01", Save::kState, {}));
    ASSERT_TRUE(side_.end_with_vmm("VM-01"));
    vmm->stop();
    while (!is_off(side_.stop("VM-01"))) std::this_thread::sleep_for(1ms);
  }
}

TEST_F(ShardSideTest, WhoComesWhileAnOutlivedVmmIsThereDoesNotEndIt) {
  auto vmm = connect(0x0406);
  ASSERT_TRUE(side_.outlive_vmm("VM-01"));
  vmm->stop();
  while (side_.clients("VM-01")->has_vmm) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(vfio_user::Client::connect(socket_)) << "its place is taken";
  EXPECT_TRUE(side_.save("VM-01", Save::kState, {}));
  ASSERT_TRUE(side_.end_with_vmm("VM-01"));
}

TEST_F(ShardSideTest, AStateIsTriedAndForgotten) {
  const auto vmm = connect(0x0406);
  const auto image = side_.pci_image("VM-01");
  ASSERT_TRUE(image);
  const auto state = side_.save("VM-01", Save::kDraft, *image);
  ASSERT_TRUE(state);
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(side_.load("VM-01", *state));
    ASSERT_TRUE(side_.unload("VM-01"));
  }
  EXPECT_TRUE(side_.stop("VM-01")) << "it works";
}

TEST_F(ShardSideTest, WhatIsNotTheVmsAloneIsNotStopped) {
  EXPECT_TRUE(is_off(side_.stop("VM-01")));
  EXPECT_TRUE(is_off(side_.load("VM-01", {})));
  const auto vmm = connect(0x0406);
  ASSERT_TRUE(side_.expect_successor("VM-01"));
  EXPECT_EQ(side_.stop("VM-01").error().kind, ErrorKind::kConflict);
  EXPECT_EQ(side_.load("VM-01", {}).error().kind, ErrorKind::kConflict);
}

TEST_F(ShardSideTest, AVectorThatTheGuestUsesIsAssigned) {
  const auto vmm = connect(0x0406);
  vmm::PciImage image = side_.pci_image("VM-01").value();
  image.config[0x43] |= 0x80;  // MSI-X enabled, which this client never did
  EXPECT_NE(side_.check_pci("VM-01", kOwn, image).error().message.find("PCI state"), std::string::npos);
}

TEST_F(ShardSideTest, AnUpgradeSaysWhatAFailureMeansForTheClient) {
  Upgrades upgrades(side_, [](const std::string& vm) {
    return vm == "VM-09" ? Result<void>(fail(ErrorKind::kConflict, "VM-09 is on its way")) : Result<void>();
  });
  EXPECT_EQ(upgrades.upgrade({.adapter = "VM-09"}).error().message, "VM-09 is on its way")
      << "not its monitor";
  EXPECT_EQ(upgrades.upgrade({.adapter = "VM-07"}).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(upgrades.upgrade({.adapter = "VM-01"}).error().kind, ErrorKind::kConflict) << "it has no QEMU";
  EXPECT_EQ(upgrades.upgrade({.adapter = "VM-01", .monitor = std::string(1, '\0')}).error().kind,
            ErrorKind::kInvalid);
}

TEST_F(ShardSideTest, WhoHasLeftIsSaid) {
  EXPECT_EQ(side_.expect_successor("VM-07").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(side_.expect_successor("VM-01").error().message,
            "adapter VM-01: its VM is off: no VMM is connected");
  const auto old = connect(0x0402);
  const auto image = side_.pci_image("VM-01");
  ASSERT_TRUE(image);
  EXPECT_FALSE(image->msix_table);
  EXPECT_EQ(side_.check_pci("VM-01", kSuccessor, *image).error().code, EPIPE);
  EXPECT_EQ(side_.write_msix_table("VM-01", kSuccessor, *image).error().code, EPIPE);
  ASSERT_TRUE(side_.expect_successor("VM-01"));
  EXPECT_EQ(side_.switch_over("VM-01").error().code, ENOTCONN);
  old->stop();
  while (side_.clients("VM-01")->successor != Successor::kNone) std::this_thread::sleep_for(1ms);
}

}  // namespace
}  // namespace pvrdma::moves
