#include "device/interrupts.h"

#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <thread>
#include <unistd.h>

#include "device/adapter_log.h"
#include "device/eventfd_signal.h"

namespace pvrdma::device {
namespace {

class InterruptsTest : public testing::Test {
 protected:
  // Assigns a new eventfd. The test keeps its own descriptor of it.
  Fd assign(std::uint32_t vector, int flags = EFD_NONBLOCK) {
    Fd fd(::eventfd(0, flags));
    EXPECT_EQ(interrupts_.assign(vector, Fd(::dup(fd.get()))), 0);
    return fd;
  }
  static std::uint64_t take(const Fd& fd) {
    std::uint64_t count = 0;
    return ::read(fd.get(), &count, sizeof count) == sizeof count ? count : 0;
  }

  SteadyClock clock_;
  AdapterLog log_{"VM-01", clock_};
  Interrupts interrupts_{clock_, log_};
};

TEST_F(InterruptsTest, RaisesTheVectorsOwnEventfd) {
  const Fd response = assign(0);
  const Fd notification = assign(2);
  interrupts_.raise(abi::Vector::kNotification);
  interrupts_.raise(abi::Vector::kNotification);
  EXPECT_EQ(take(response), 0u);
  EXPECT_EQ(take(notification), 2u);
  EXPECT_EQ(interrupts_.raised(abi::Vector::kNotification), 2u);
  EXPECT_EQ(interrupts_.raised_total(), 2u);
}

TEST_F(InterruptsTest, WithoutEventfdNothingIsRemembered) {
  interrupts_.raise(abi::Vector::kResponse);
  const Fd fd = assign(0);
  EXPECT_EQ(take(fd), 0u);
  EXPECT_EQ(interrupts_.raised_total(), 0u);
}

TEST_F(InterruptsTest, AMaskedCauseIsSignalledOnceAfterwards) {
  const Fd fd = assign(1);
  interrupts_.set_mask(abi::kImrAllMasked);
  interrupts_.raise(abi::Vector::kAsyncEvent);
  interrupts_.raise(abi::Vector::kAsyncEvent);
  EXPECT_EQ(take(fd), 0u);
  interrupts_.set_mask(abi::kInterruptAsyncEvent);
  EXPECT_EQ(take(fd), 0u);
  interrupts_.set_mask(abi::kImrAllEnabled);
  EXPECT_EQ(take(fd), 1u);
  interrupts_.set_mask(abi::kImrAllEnabled);
  EXPECT_EQ(take(fd), 0u);
}

TEST_F(InterruptsTest, ReadingTheCausesClearsThem) {
  interrupts_.raise(abi::Vector::kResponse);
  interrupts_.raise(abi::Vector::kNotification);
  EXPECT_EQ(interrupts_.take_causes(), 5u);
  EXPECT_EQ(interrupts_.take_causes(), 0u);
}

TEST_F(InterruptsTest, ANewEventfdReplacesAnEmptyOneUnassigns) {
  const Fd old = assign(0);
  const Fd fresh = assign(0);
  interrupts_.raise(abi::Vector::kResponse);
  EXPECT_EQ(take(old), 0u);
  EXPECT_EQ(take(fresh), 1u);
  EXPECT_EQ(interrupts_.assign(0, Fd()), 0);
  interrupts_.raise(abi::Vector::kResponse);
  EXPECT_EQ(take(fresh), 0u);
  EXPECT_EQ(interrupts_.assign(3, Fd()), EINVAL);
}

TEST_F(InterruptsTest, ResetKeepsEventfds) {
  const Fd fd = assign(0);
  interrupts_.set_mask(abi::kImrAllMasked);
  interrupts_.raise(abi::Vector::kResponse);
  interrupts_.reset();
  EXPECT_EQ(interrupts_.take_causes(), 0u);
  EXPECT_EQ(take(fd), 0u);
  interrupts_.raise(abi::Vector::kResponse);
  EXPECT_EQ(take(fd), 1u);
}

// The flag belongs to the open file, which the client shares. It may change the flag after every check.
TEST_F(InterruptsTest, AFullEventfdDoesNotBlockThoughTheClientMakesItBlocking) {
  const Fd fd = assign(0);
  const std::uint64_t almost_full = ~0ULL - 1;
  ASSERT_EQ(::write(fd.get(), &almost_full, sizeof almost_full), 8);
  ASSERT_EQ(::fcntl(fd.get(), F_SETFL, 0), 0);
  for (int i = 0; i < 3; ++i) interrupts_.raise(abi::Vector::kResponse);
  EXPECT_GE(take(fd), almost_full);
  interrupts_.raise(abi::Vector::kResponse);
  EXPECT_EQ(take(fd), 1u);
}

TEST_F(InterruptsTest, ManyThatNobodyReadsAreNotLost) {
  const Fd fd = assign(0);
  for (int i = 0; i < 5'000; ++i) interrupts_.raise(abi::Vector::kResponse);
  EXPECT_EQ(take(fd), 5'000u);
  EXPECT_EQ(interrupts_.raised_total(), 5'000u);
}

// Several shards would do so: the process has one context for all of them.
TEST_F(InterruptsTest, ThreadsSignalAtTheSameTime) {
  constexpr int kEach = 5'000;
  const Fd fd = assign(0);
  const Fd other(::eventfd(0, EFD_NONBLOCK));
  std::thread thread([&other] {
    for (int i = 0; i < kEach; ++i) EXPECT_TRUE(signal_eventfd(other.get()));
  });
  for (int i = 0; i < kEach; ++i) interrupts_.raise(abi::Vector::kResponse);
  thread.join();
  EXPECT_EQ(take(fd), std::uint64_t{kEach});
  EXPECT_EQ(take(other), std::uint64_t{kEach});
}

// A write to a socket whose peer is gone would kill the daemon, and one to a pipe could block it.
TEST_F(InterruptsTest, TakesNothingButEventfds) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  EXPECT_EQ(interrupts_.assign(0, Fd(ends[1])), EINVAL);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ::close(ends[0]);
  EXPECT_EQ(interrupts_.assign(0, Fd(ends[1])), EINVAL);
  EXPECT_EQ(interrupts_.assign(0, Fd(::open("/dev/null", O_RDWR))), EINVAL);
  EXPECT_EQ(interrupts_.assign(0, Fd(::open("/dev/null", O_WRONLY))), EINVAL);
  EXPECT_EQ(interrupts_.assign(0, Fd(::timerfd_create(CLOCK_MONOTONIC, 0))), EINVAL);
  EXPECT_EQ(interrupts_.assign(0, Fd(::memfd_create("ram", 0))), EINVAL);
  EXPECT_EQ(interrupts_.assign(0, Fd(::open("/tmp", O_PATH))), EINVAL);
  EXPECT_FALSE(is_eventfd(1 << 20)) << "a number that is not open";
  interrupts_.raise(abi::Vector::kResponse);
}

}  // namespace
}  // namespace pvrdma::device
