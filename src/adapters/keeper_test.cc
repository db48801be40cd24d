// The adapters of several shards are kept together. pvrdmad's restart_test shows that a process takes them
// back.
#include "adapters/keeper.h"

#include <cstddef>
#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "adapters/two_shards_fixture.h"
#include "keep/fake_manager.h"
#include "support/log_of.h"
#include "support/manual_clock.h"
#include "vfio_user/client.h"

namespace pvrdma::adapters {
namespace {

using testing::Contains;
using testing::Not;
using testing::StartsWith;

class KeeperTest : public testing::Test {
 protected:
  // `most`: how many descriptors the store takes.
  explicit KeeperTest(std::size_t most = 100)
      : manager_(testing::TempDir() + "keeper_test_" + std::to_string(::getpid()), most) {}
  static std::unique_ptr<vfio_user::Client> connect(const std::string& socket) {
    auto client = vfio_user::Client::connect(socket).value();
    EXPECT_TRUE(client->device_info());
    return client;
  }
  // Waits until the store has a name with this prefix. The test's own time limit guards against hanging.
  void wait_until_kept(const std::string& prefix) const {
    while (!testing::Value(manager_.names(), Contains(StartsWith(prefix)))) std::this_thread::yield();
  }

  keep::FakeManager manager_;
  const std::unique_ptr<keep::DescriptorStore> store_ = keep::DescriptorStore::from_environment().value();
  pvrdma::test::ManualClock clock_;
  Keeper keeper_{*store_, clock_};
};

TEST_F(KeeperTest, KeepsTheAdaptersOfAllShards) {
  test::TwoShards two(&keeper_.keeping());
  keeper_.start(two.shards());
  const auto first = connect(two.socket(0));
  const auto second = connect(two.socket(1));
  wait_until_kept("VM-1/record/");
  wait_until_kept("VM-2/record/");
  while (!keeper_.keeps_clients()) std::this_thread::yield();
  two.stop(0);
  two.stop(1);
  keeper_.keep_all();
  EXPECT_THAT(manager_.names(), Contains(StartsWith("VM-1/record/")));
  EXPECT_THAT(manager_.names(), Contains(StartsWith("VM-2/record/")));
}

// The keeper has no list of that shard's adapters, so it must not take them for gone.
TEST_F(KeeperTest, AShardThatDoesNotAnswerLosesNothingAndHoldsUpNoOther) {
  test::TwoShards two(&keeper_.keeping());
  keeper_.start(two.shards());
  const auto first = connect(two.socket(0));
  wait_until_kept("VM-1/record/");
  two.stop(0);
  const auto second = connect(two.socket(1));
  wait_until_kept("VM-2/record/");
  EXPECT_THAT(manager_.names(), Contains(StartsWith("VM-1/record/")));
  two.stop(1);
  keeper_.keep_all();
}

class FullStoreTest : public KeeperTest {
 protected:
  FullStoreTest() : KeeperTest(1) {}
};

TEST_F(FullStoreTest, AnAdapterThatIsNotKeptFillsNoLog) {
  test::TwoShards two(&keeper_.keeping());
  keeper_.start(two.shards());
  const std::string lines = pvrdma::test::log_of([&] {
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t before = clock_.reads();
      const auto client = connect(two.socket(0));
      while (clock_.reads() == before) std::this_thread::yield();
    }
    two.stop(0);
    two.stop(1);
    keeper_.keep_all();
  });
  const std::string_view line = "adapter VM-1: if the daemon restarts, the VM loses this adapter: ";
  std::size_t count = 0;
  for (auto at = lines.find(line); at != std::string::npos; at = lines.find(line, at + 1)) ++count;
  EXPECT_EQ(count, 2) << lines;
}

}  // namespace
}  // namespace pvrdma::adapters
