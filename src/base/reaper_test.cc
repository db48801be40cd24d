#include "base/reaper.h"

#include <fcntl.h>
#include <future>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "base/client_fd.h"
#include "support/lingering_socket.h"

namespace pvrdma {
namespace {

using namespace std::chrono_literals;

// Its destructor blocks until the gate opens.
class Stubborn final : public Reapable {
 public:
  Stubborn(std::shared_future<void> gate, std::atomic<int>& released)
      : gate_(std::move(gate)), released_(released) {}
  ~Stubborn() override {
    gate_.wait();
    ++released_;
  }

 private:
  std::shared_future<void> gate_;
  std::atomic<int>& released_;
};

template <typename Predicate>
bool eventually(Predicate holds) {
  const Instant deadline = Instant::now() + 20s;
  while (!holds()) {
    if (Instant::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

class ReaperTest : public testing::Test {
 protected:
  std::unique_ptr<Reaper> reaper_ = std::move(Reaper::create().value());
  std::atomic<int> released_ = 0;
  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
};

TEST_F(ReaperTest, ReleasesThingsAndDescriptorsAndItsThreadsGo) {
  const auto queue = reaper_->open_queue();
  gate_.set_value();
  for (int i = 0; i < 100; ++i) queue->release(std::make_unique<Stubborn>(opened_, released_));
  const int number = ::eventfd(0, EFD_CLOEXEC);
  queue->close(Fd(number));
  EXPECT_TRUE(eventually([&] { return queue->waiting() == 0 && reaper_->busy_queues() == 0; }));
  EXPECT_EQ(released_, 100);
  EXPECT_FALSE(is_open(number));
}

TEST_F(ReaperTest, WhatCannotBeReleasedHoldsUpItsOwnQueueOnly) {
  const auto stuck = reaper_->open_queue();
  stuck->release(std::make_unique<Stubborn>(opened_, released_));
  const int behind = ::eventfd(0, EFD_CLOEXEC);
  stuck->close(Fd(behind));

  const auto other = reaper_->open_queue();
  const int number = ::eventfd(0, EFD_CLOEXEC);
  other->close(Fd(number));
  EXPECT_TRUE(eventually([&] { return other->waiting() == 0; }));
  EXPECT_FALSE(is_open(number));
  EXPECT_EQ(stuck->waiting(), 2u);
  EXPECT_TRUE(is_open(behind));

  gate_.set_value();
  EXPECT_TRUE(eventually([&] { return stuck->waiting() == 0; }));
  EXPECT_EQ(released_, 1);
  EXPECT_FALSE(is_open(behind));
}

TEST_F(ReaperTest, ACloseThatLingersHoldsUpNobody) {
  const auto stuck = reaper_->open_queue();
  test::LingeringSocket lingering;
  stuck->close(lingering.take());
  const auto other = reaper_->open_queue();
  gate_.set_value();
  other->release(std::make_unique<Stubborn>(opened_, released_));
  EXPECT_TRUE(eventually([&] { return other->waiting() == 0; }));
  EXPECT_EQ(stuck->waiting(), 1u);
  lingering.let_go();
  EXPECT_TRUE(eventually([&] { return stuck->waiting() == 0; }));
}

TEST_F(ReaperTest, EndsThoughAReleaseDoesNot) {
  const auto stuck = reaper_->open_queue();
  stuck->release(std::make_unique<Stubborn>(opened_, released_));
  reaper_.reset();
  EXPECT_EQ(released_, 0);
  // Without the Reaper, the queue closes descriptors in place.
  const int number = ::eventfd(0, EFD_CLOEXEC);
  stuck->close(Fd(number));
  EXPECT_FALSE(is_open(number));
  gate_.set_value();
  EXPECT_TRUE(eventually([&] { return stuck->waiting() == 0; }));
  EXPECT_EQ(released_, 1);
}

TEST_F(ReaperTest, AQueueFilledWhileItIsEmptiedLosesNothing) {
  const auto queue = reaper_->open_queue();
  gate_.set_value();
  for (int i = 0; i < 20'000; ++i) {
    queue->release(std::make_unique<Stubborn>(opened_, released_));
    if (i % 64 == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(eventually([&] { return queue->waiting() == 0; }));
  EXPECT_EQ(released_, 20'000);
}

TEST_F(ReaperTest, AClientsDescriptorGoesToItsQueueWhereverItEnds) {
  const auto queue = reaper_->open_queue();
  queue->release(std::make_unique<Stubborn>(opened_, released_));
  const int first = ::eventfd(0, EFD_CLOEXEC), second = ::eventfd(0, EFD_CLOEXEC);
  ClientFd kept(Fd(first), queue);
  { const ClientFd passing(Fd(second), queue); }
  kept = ClientFd();
  EXPECT_EQ(queue->waiting(), 3u);
  EXPECT_TRUE(is_open(first) && is_open(second)) << "they wait";
  gate_.set_value();
  EXPECT_TRUE(eventually([&] { return queue->waiting() == 0; }));
  EXPECT_FALSE(is_open(first) || is_open(second));
}

}  // namespace
}  // namespace pvrdma
