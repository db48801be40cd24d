#include "keep/descriptor_store.h"

#include <cerrno>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keep/fake_manager.h"
#include "keep/memory_file.h"

namespace pvrdma::keep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DescriptorStoreTest : public testing::Test {
 protected:
  static std::string path() { return testing::TempDir() + "manager-" + std::to_string(::getpid()); }
  static std::unique_ptr<DescriptorStore> open() {
    auto store = DescriptorStore::from_environment();
    EXPECT_TRUE(store);
    return store ? *std::move(store) : nullptr;
  }
  static Fd file(char content) {
    const std::vector<std::byte> bytes{static_cast<std::byte>(content)};
    return *to_memory_file(bytes);
  }
};

TEST_F(DescriptorStoreTest, IsNoneWhereNobodyKeeps) {
  EXPECT_EQ(open(), nullptr);
  const FakeManager none(path(), 0);
  EXPECT_EQ(open(), nullptr);
}

TEST_F(DescriptorStoreTest, StoresAndRemovesByName) {
  FakeManager manager(path());
  const auto store = open();
  ASSERT_NE(store, nullptr);
  ASSERT_TRUE(store->put("a/1", file('x')));
  ASSERT_TRUE(store->put("a/2", file('y')));
  ASSERT_TRUE(store->remove("a/1"));
  ASSERT_TRUE(store->settle());
  EXPECT_THAT(manager.names(), ElementsAre("a/2"));
  EXPECT_THAT(store->names(), ElementsAre("a/2"));
}

TEST_F(DescriptorStoreTest, GivesTheNextProcessWhatWasStored) {
  FakeManager manager(path());
  {
    const auto store = open();
    ASSERT_TRUE(store->put("a/1", file('x')) && store->put("b", file('y')) && store->settle());
  }
  manager.give_back();
  const auto store = open();
  ASSERT_NE(store, nullptr);
  auto came = store->take();
  ASSERT_EQ(came.size(), 2);
  EXPECT_EQ(from_memory_file(came.at("a/1"), 1).value(), std::vector{static_cast<std::byte>('x')});
  EXPECT_NE(::fcntl(came.at("b").get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_THAT(store->names(), ElementsAre("a/1", "b")) << "they are stored still";
  EXPECT_EQ(std::getenv("LISTEN_FDS"), nullptr) << "nobody else is to take them for its own";
}

TEST_F(DescriptorStoreTest, StoresNoMoreThanMayBe) {
  FakeManager manager(path(), 1);
  const auto store = open();
  ASSERT_TRUE(store->put("a", file('x')));
  const auto refused = store->put("b", file('y'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
  EXPECT_THAT(refused.error().message, HasSubstr("FileDescriptorStoreMax="));
  ASSERT_TRUE(store->settle());
  EXPECT_THAT(manager.names(), ElementsAre("a"));
}

TEST_F(DescriptorStoreTest, SaysWhatIsWrongWithItsEnvironment) {
  const FakeManager manager(path());
  ::setenv("FDSTORE", "many", 1);
  EXPECT_THAT(DescriptorStore::from_environment().error().message, HasSubstr("FDSTORE=many"));
  ::setenv("FDSTORE", "10", 1);
  ::setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
  EXPECT_THAT(DescriptorStore::from_environment().error().message, HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace pvrdma::keep
