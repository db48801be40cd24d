// log_of(): what the log gets while a test's work runs. Thread: one at a time.
#pragma once

#include <chrono>
#include <gtest/gtest.h>
#include <string>

#include "base/log_writer.h"
#include "base/time.h"

namespace pvrdma::test {

// Returns the lines, also those of other threads.
template <typename Work>
std::string log_of(Work work) {
  constexpr Duration kPatience = std::chrono::seconds(20);
  EXPECT_TRUE(log::flush(kPatience)) << "the lines of earlier cases";
  ::testing::internal::CaptureStderr();
  work();
  EXPECT_TRUE(log::flush(kPatience));
  return ::testing::internal::GetCapturedStderr();
}

}  // namespace pvrdma::test
