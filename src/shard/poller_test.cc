#include "shard/poller.h"

#include <functional>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace pvrdma::shard {
namespace {

Fd make_event(unsigned value) {
  return Fd(::eventfd(value, EFD_NONBLOCK | EFD_CLOEXEC));
}

struct Recorder final : FdHandler {
  std::vector<std::pair<int, Readiness>> calls;
  std::function<void(int)> then = [](int) {};
  std::string what() const override { return "a recorder"; }
  void on_fd_ready(int fd, Readiness ready) override {
    calls.emplace_back(fd, ready);
    then(fd);
  }
};

TEST(Poller, TellsTheHandlerWhatIsReady) {
  auto poller = Poller::create().value();
  Recorder handler;
  const Fd event = make_event(1);
  ASSERT_TRUE(poller->watch(event.get(), Interest::kRead, handler));
  EXPECT_EQ(poller->wait(Duration{0}), 1U);
  ASSERT_EQ(handler.calls.size(), 1U);
  EXPECT_EQ(handler.calls[0].first, event.get());
  EXPECT_TRUE(handler.calls[0].second.readable);
  EXPECT_FALSE(handler.calls[0].second.writable);
  poller->unwatch(event.get());
  EXPECT_EQ(poller->wait(Duration{0}), 0U);
}

TEST(Poller, ChangesWhatItWaitsFor) {
  auto poller = Poller::create().value();
  Recorder handler;
  const Fd event = make_event(0);
  ASSERT_TRUE(poller->watch(event.get(), Interest::kRead, handler));
  EXPECT_EQ(poller->wait(Duration{0}), 0U);
  poller->change(event.get(), Interest::kWrite);
  EXPECT_EQ(poller->wait(Duration{0}), 1U);
  EXPECT_TRUE(handler.calls.at(0).second.writable);
  EXPECT_FALSE(handler.calls.at(0).second.readable);
}

TEST(Poller, ReportsAHangUpAsBoth) {
  auto poller = Poller::create().value();
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  Fd near(pair[0]);
  Fd far(pair[1]);
  Recorder handler;
  ASSERT_TRUE(poller->watch(near.get(), Interest::kWrite, handler));
  far.reset();
  EXPECT_EQ(poller->wait(Duration{0}), 1U);
  EXPECT_TRUE(handler.calls.at(0).second.readable);
  EXPECT_TRUE(handler.calls.at(0).second.writable);
}

TEST(Poller, AsksForBothAndForNothing) {
  auto poller = Poller::create().value();
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  Fd near(pair[0]);
  Fd far(pair[1]);
  Recorder handler;
  ASSERT_TRUE(poller->watch(near.get(), Interest::kBoth, handler));
  ASSERT_EQ(::write(far.get(), "x", 1), 1);
  EXPECT_EQ(poller->wait(Duration{0}), 1U);
  EXPECT_TRUE(handler.calls.at(0).second.readable);
  EXPECT_TRUE(handler.calls.at(0).second.writable);
  poller->change(near.get(), Interest::kNone);
  EXPECT_EQ(poller->wait(Duration{0}), 0U);
  far.reset();
  EXPECT_EQ(poller->wait(Duration{0}), 1U) << "a hang-up is told all the same";
  EXPECT_TRUE(handler.calls.at(1).second.readable);
}

// Both are ready in the same wait. The one that is called first ends the other's watch.
TEST(Poller, NeverCallsAHandlerAfterUnwatch) {
  auto poller = Poller::create().value();
  Recorder handler;
  Fd first = make_event(1);
  Fd second = make_event(1);
  ASSERT_TRUE(poller->watch(first.get(), Interest::kRead, handler));
  ASSERT_TRUE(poller->watch(second.get(), Interest::kRead, handler));
  handler.then = [&](int fd) { poller->unwatch(fd == first.get() ? second.get() : first.get()); };
  EXPECT_EQ(poller->wait(Duration{0}), 1U);
  EXPECT_EQ(handler.calls.size(), 1U);
  EXPECT_EQ(poller->watch_count(), 1U);
}

// As above, but the number is in use again before its old readiness is reported.
TEST(Poller, KeepsOldReadinessFromANewWatchOfTheSameNumber) {
  auto poller = Poller::create().value();
  Recorder handler;
  Recorder newcomer;
  Fd first = make_event(1);
  Fd second = make_event(1);
  ASSERT_TRUE(poller->watch(first.get(), Interest::kRead, handler));
  ASSERT_TRUE(poller->watch(second.get(), Interest::kRead, handler));
  handler.then = [&](int fd) {
    Fd& other = fd == first.get() ? second : first;
    const int number = other.get();
    other.reset();
    poller->unwatch(number);
    other = make_event(0);
    ASSERT_EQ(other.get(), number) << "the kernel gives out the lowest free number";
    ASSERT_TRUE(poller->watch(number, Interest::kRead, newcomer));
  };
  EXPECT_EQ(poller->wait(Duration{0}), 1U);
  EXPECT_EQ(newcomer.calls.size(), 0U);
}

TEST(Poller, WaitsNoLongerThanTold) {
  auto poller = Poller::create().value();
  const Instant before = Instant::now();
  EXPECT_EQ(poller->wait(std::chrono::microseconds(300)), 0U);
  EXPECT_GE(Instant::now() - before, std::chrono::microseconds(300));
}

TEST(Poller, ReportsAnFdThatCannotBeWatched) {
  auto poller = Poller::create().value();
  Recorder handler;
  Fd closed = make_event(0);
  const int number = closed.get();
  closed.reset();
  const auto watched = poller->watch(number, Interest::kRead, handler);
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().code, EBADF);
  EXPECT_EQ(poller->watch_count(), 0U);
}

}  // namespace
}  // namespace pvrdma::shard
