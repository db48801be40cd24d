#include "shard/ask.h"

#include <array>
#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <thread>

namespace pvrdma::shard {
namespace {

using namespace std::chrono_literals;

class AskTest : public testing::Test {
 protected:
  void TearDown() override {
    loop_->stop();
    if (thread_.joinable()) thread_.join();
  }
  void run() {
    thread_ = std::thread([this] { loop_->run(); });
  }

  SteadyClock clock_;
  std::unique_ptr<Loop> loop_ = Loop::create({.mailbox_tasks = 2}, clock_).value();
  std::thread thread_;
};

TEST_F(AskTest, AnswersFromTheShardsThread) {
  run();
  const auto answer =
      ask(*loop_, 10s, [] { return std::make_unique<std::thread::id>(std::this_thread::get_id()); });
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(**answer, thread_.get_id());
}

TEST_F(AskTest, GivesUpOnAShardThatDoesNotAnswer) {
  const auto answer = ask(*loop_, 1ms, [] { return 1; });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ETIMEDOUT);
}

TEST_F(AskTest, WhatWasGivenUpDoesNotRunLater) {
  auto ran = std::make_shared<std::atomic<bool>>(false);
  EXPECT_FALSE(ask(*loop_, 1ms, [ran] { return ran->exchange(true); }));
  run();
  EXPECT_EQ(ask(*loop_, 10s, [] { return 7; }).value(), 7);
  EXPECT_FALSE(*ran);
}

TEST_F(AskTest, WhatRunsAlreadyIsWaitedFor) {
  run();
  std::atomic<bool> began{false};
  std::atomic<bool> may_end{false};
  std::thread later([&] {
    while (!began) std::this_thread::yield();
    std::this_thread::sleep_for(20ms);  // longer than the asker's patience
    may_end = true;
  });
  Result<int> answer = fail("not asked");
  while (!began) {
    answer = ask(*loop_, 1ms, [&] {
      began = true;
      while (!may_end) std::this_thread::yield();
      return 7;
    });
  }
  EXPECT_EQ(answer.value(), 7);
  later.join();
}

TEST_F(AskTest, WhatEndsTooLateIsUndoneOnTheShard) {
  run();
  std::promise<void> may_end;
  std::atomic<bool> begun = false;
  std::promise<int> undone;
  Result<int> answer = fail("not asked");
  while (!begun) {
    answer = ask_or_undo(
        *loop_, 1ms,
        [&] {
          begun = true;
          may_end.get_future().wait();
          return 7;
        },
        [&](const int* late) { undone.set_value(late != nullptr ? *late : 0); }, "a test's");
  }
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, EINPROGRESS);
  may_end.set_value();
  EXPECT_EQ(undone.get_future().get(), 7);
}

TEST_F(AskTest, WhatFailsTooLateIsUndoneToo) {
  run();
  std::promise<void> may_end;
  std::atomic<bool> begun = false;
  std::promise<bool> had_none;
  while (!begun) {
    static_cast<void>(ask_or_undo(
        *loop_, 1ms,
        [&]() -> int {
          begun = true;
          may_end.get_future().wait();
          throw std::bad_alloc();
        },
        [&](const int* late) { had_none.set_value(late == nullptr); }, "a test's"));
  }
  may_end.set_value();
  EXPECT_TRUE(had_none.get_future().get());
}

TEST_F(AskTest, WhatWasNotBegunInTimeNeedsNoUndo) {
  auto ran = std::make_shared<std::atomic<int>>(0);
  const auto answer = ask_or_undo(
      *loop_, 1ms, [ran] { return ++*ran; }, [ran](const int*) { ++*ran; }, "a test's");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ETIMEDOUT);
  run();
  EXPECT_EQ(ask(*loop_, 10s, [] { return 7; }).value(), 7);
  EXPECT_EQ(*ran, 0);
}

TEST_F(AskTest, WhatIsInsistedOnRunsLaterAndAlsoInAFullMailbox) {
  EXPECT_TRUE(loop_->post([] {}));
  EXPECT_TRUE(loop_->post([] {}));
  auto ran = std::make_shared<std::atomic<bool>>(false);
  const auto late = insist(
      *loop_, 1ms, [ran] { return !ran->exchange(true); }, "a test's");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ETIMEDOUT);
  EXPECT_FALSE(*ran);
  run();
  EXPECT_TRUE(insist(
                  *loop_, 10s, [ran] { return ran->load(); }, "a test's")
                  .value());
}

TEST_F(AskTest, IsRefusedWhereThereIsNoMemoryForTheAnswer) {
  run();
  const auto answer = ask(*loop_, 10s, []() -> int { throw std::bad_alloc(); });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ENOMEM);
  EXPECT_EQ(ask(*loop_, 10s, [] { return 7; }).value(), 7) << "the shard goes on";
}

TEST_F(AskTest, AMistakeInAQuestionEndsThatQuestionOnly) {
  run();
  const auto answer = ask(*loop_, 10s, []() -> int { throw std::out_of_range("map::at"); });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, EFAULT);
  EXPECT_EQ(answer.error().kind, ErrorKind::kInternal);
  EXPECT_EQ(ask(*loop_, 10s, [] { return 7; }).value(), 7) << "the shard goes on";
}

TEST_F(AskTest, IsRefusedByAFullMailbox) {
  EXPECT_TRUE(loop_->post([] {}));
  EXPECT_TRUE(loop_->post([] {}));
  const auto answer = ask(*loop_, 10s, [] { return 1; });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, EAGAIN);
}

TEST_F(AskTest, AsksAllAtOnceAndKeepsTheirOrder) {
  const auto second = Loop::create({}, clock_).value();
  std::array<std::thread::id, 2> ids{};
  std::atomic<int> here = 0;
  // Each answer waits until both shards have been asked.
  const auto meet = [&ids, &here](std::size_t index) {
    ids.at(index) = std::this_thread::get_id();
    ++here;
    while (here != 2) std::this_thread::yield();
    return index + 10;
  };
  run();
  std::thread other([&] { second->run(); });
  const std::array loops{loop_.get(), second.get()};
  const auto answers = ask_all(std::span<Loop* const>(loops), 10s, meet, "a test's");
  EXPECT_EQ(answers.at(0).value(), 10U);
  EXPECT_EQ(answers.at(1).value(), 11U);
  EXPECT_EQ(ids, (std::array{thread_.get_id(), other.get_id()}));
  second->stop();
  other.join();
}

TEST_F(AskTest, OneShardThatDoesNotAnswerCostsNoOtherAnswer) {
  const auto stopped = Loop::create({}, clock_).value();
  stopped->stop();
  stopped->run();
  run();
  const std::array loops{stopped.get(), loop_.get()};
  const auto answers = ask_all(
      std::span<Loop* const>(loops), 10s, [](std::size_t index) { return index; }, "a test's");
  ASSERT_FALSE(answers.at(0));
  EXPECT_EQ(answers.at(0).error().code, EAGAIN);
  EXPECT_EQ(answers.at(1).value(), 1U);
}

TEST_F(AskTest, AMistakeOnOneShardCostsNoOtherAnswer) {
  const auto second = Loop::create({}, clock_).value();
  run();
  std::thread other([&] { second->run(); });
  const std::array loops{loop_.get(), second.get()};
  const auto answers = ask_all(
      std::span<Loop* const>(loops), 10s,
      [](std::size_t index) { return index == 0 ? throw std::out_of_range("map::at") : index; }, "a test's");
  ASSERT_FALSE(answers.at(0));
  EXPECT_EQ(answers.at(0).error().code, EFAULT);
  EXPECT_EQ(answers.at(1).value(), 1U);
  second->stop();
  other.join();
}

TEST_F(AskTest, IsAnsweredOrRefusedWhileTheShardStops) {
  run();
  std::atomic<bool> refused{false};
  std::thread asker([&] {
    while (true) {
      const auto answer = ask(*loop_, 10s, [] { return 1; });
      if (answer) continue;
      refused = answer.error().code == EAGAIN;
      return;
    }
  });
  std::this_thread::sleep_for(5ms);
  loop_->stop();
  asker.join();
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace pvrdma::shard
