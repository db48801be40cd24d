#include "device/client_eventfd.h"

#include <gtest/gtest.h>
#include <latch>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "base/reaper.h"

namespace pvrdma::device {
namespace {

using namespace std::chrono_literals;
using Signal = ClientEventfd::Signal;

// Between two reads of the CPU time lies `cpu_each`, between two of the time `each`.
class SignalClock final : public Clock {
 public:
  Instant now() const override { return now_ = now_ + each; }
  Duration thread_cpu() const override { return cpu_ += cpu_each; }

  void advance(Duration by) { now_ = now_ + by; }

  Duration each{};
  Duration cpu_each{};

 private:
  mutable Instant now_{1s};
  mutable Duration cpu_{};
};

class Obstacle final : public Reapable {
 public:
  Obstacle(std::latch& begun, std::latch& end) : begun_(begun), end_(end) {}
  Obstacle(const Obstacle&) = delete;
  Obstacle& operator=(const Obstacle&) = delete;
  ~Obstacle() override {
    begun_.count_down();
    end_.wait();
  }

 private:
  std::latch& begun_;
  std::latch& end_;
};

class ClientEventfdTest : public testing::Test {
 protected:
  std::uint64_t take() const {
    std::uint64_t count = 0;
    return ::read(clients_.get(), &count, sizeof count) == sizeof count ? count : 0;
  }
  std::uint64_t wait() const {
    pollfd ready{clients_.get(), POLLIN, 0};
    return ::poll(&ready, 1, 10'000) == 1 ? take() : 0;
  }
  // The next signals go to the thread.
  void become_slow() {
    clock_.each = clock_.cpu_each = ClientEventfd::kSlow;
    EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade) << "it may have waited for a core";
    EXPECT_EQ(eventfd_.signal(clock_), Signal::kMadeSlowly);
    clock_.each = clock_.cpu_each = Duration{};
    EXPECT_EQ(take(), 2u);
  }
  // The queue's thread is kept from its work until `end`.
  void hold_thread(std::latch& end) {
    std::latch begun(1);
    queue_->release(std::make_unique<Obstacle>(begun, end));
    begun.wait();
  }

  SignalClock clock_;
  std::unique_ptr<Reaper> reaper_ = Reaper::create().value();
  std::shared_ptr<ReaperQueue> queue_ = reaper_->open_queue();
  Fd clients_{::eventfd(0, EFD_NONBLOCK)};
  ClientEventfd eventfd_{ClientFd(Fd(::dup(clients_.get())), queue_)};
};

TEST_F(ClientEventfdTest, SignalsAreMadeAtOnce) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  EXPECT_EQ(take(), 3u);
  EXPECT_EQ(queue_->waiting(), 0u);
}

TEST_F(ClientEventfdTest, WaitingForACoreIsNotSlow) {
  clock_.each = ClientEventfd::kSlow;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  EXPECT_EQ(take(), 3u) << "none of them went to the thread";
}

TEST_F(ClientEventfdTest, AfterASlowSignalTheThreadMakesThem) {
  become_slow();
  std::latch end(1);
  hold_thread(end);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  EXPECT_EQ(take(), 0u);
  EXPECT_EQ(queue_->waiting(), 2u) << "five that wait are one";
  end.count_down();
  EXPECT_EQ(wait(), 1u);
  EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  EXPECT_EQ(wait(), 1u) << "what is raised later is signalled again";
}

TEST_F(ClientEventfdTest, AfterAMinuteWithoutSlowSignalsTheyAreMadeAtOnceAgain) {
  become_slow();
  EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  EXPECT_EQ(wait(), 1u);
  clock_.advance(ClientEventfd::kSlowFor);
  EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  EXPECT_EQ(take(), 1u);
}

TEST_F(ClientEventfdTest, WhatWaitsOutlivesTheEventfdsReplacement) {
  become_slow();
  std::latch end(1);
  hold_thread(end);
  EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  const Fd next(::eventfd(0, EFD_NONBLOCK));
  eventfd_ = ClientEventfd(ClientFd(Fd(::dup(next.get())), queue_));
  end.count_down();
  EXPECT_EQ(wait(), 1u);
  EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  std::uint64_t count = 0;
  EXPECT_EQ(::read(next.get(), &count, sizeof count), 8) << "a new eventfd is not slow";
}

TEST_F(ClientEventfdTest, WithoutAQueueEachIsMadeInPlace) {
  eventfd_ = ClientEventfd(ClientFd(Fd(::dup(clients_.get()))));
  clock_.each = clock_.cpu_each = ClientEventfd::kSlow;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(eventfd_.signal(clock_), Signal::kMade);
  EXPECT_EQ(take(), 3u);
}

}  // namespace
}  // namespace pvrdma::device
