#include "base/control_thread.h"

#include <gtest/gtest.h>
#include <new>
#include <thread>

namespace pvrdma {
namespace {

// What operator new does when there is no memory: the new handler, after which it tries again.
bool waits() {
  const std::new_handler handler = std::get_new_handler();
  if (handler == nullptr) return false;
  try {
    handler();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

TEST(ControlThread, WaitsForMemoryAndNobodyElseDoes) {
  std::thread control([] {
    begin_control_thread("control");
    EXPECT_TRUE(waits());
  });
  control.join();
  EXPECT_FALSE(waits());
}

TEST(ControlThread, DoesNotWaitWhileItMustNot) {
  std::thread control([] {
    begin_control_thread("control");
    {
      const Impatience impatience;
      EXPECT_FALSE(waits());
      {
        const Impatience within;
        EXPECT_FALSE(waits());
      }
      EXPECT_FALSE(waits());
    }
    EXPECT_TRUE(waits());
  });
  control.join();
}

}  // namespace
}  // namespace pvrdma
