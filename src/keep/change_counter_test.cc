#include "keep/change_counter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "keep/memory_file.h"

namespace pvrdma::keep {
namespace {

TEST(ChangeCounterTest, GoesOnInAnotherProcessMemory) {
  const auto first = ChangeCounter::create();
  ASSERT_TRUE(first);
  EXPECT_EQ((*first)->value(), 0);
  (*first)->bump();
  const auto second = ChangeCounter::create(Fd(::dup((*first)->fd())));
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->value(), 1);
  (*second)->bump();
  EXPECT_EQ((*first)->value(), 2);
}

TEST(ChangeCounterTest, RefusesWhatIsNone) {
  EXPECT_FALSE(ChangeCounter::create(Fd(::open("/dev/null", O_RDWR))));
  auto file = to_memory_file({});
  ASSERT_TRUE(file);
  EXPECT_FALSE(ChangeCounter::create(*std::move(file)));
  Fd shrinkable(::memfd_create("shrinkable", MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(shrinkable.get(), 4096), 0);
  EXPECT_FALSE(ChangeCounter::create(std::move(shrinkable))) << "its page could be taken away";
}

}  // namespace
}  // namespace pvrdma::keep
