#include "shard/mailbox.h"

#include <gtest/gtest.h>
#include <memory>
#include <poll.h>
#include <vector>

namespace pvrdma::shard {
namespace {

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(Mailbox, RunsTasksInOrderAndIsReadableOnlyWhileItHasSome) {
  auto mailbox = Mailbox::create(8).value();
  std::vector<int> order;
  EXPECT_FALSE(readable(mailbox->wake_fd()));
  EXPECT_TRUE(mailbox->post([&] { order.push_back(1); }));
  EXPECT_TRUE(mailbox->post([&] { order.push_back(2); }));
  EXPECT_TRUE(readable(mailbox->wake_fd()));
  EXPECT_EQ(mailbox->run_posted(), 2U);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_FALSE(readable(mailbox->wake_fd()));
  EXPECT_EQ(mailbox->run_posted(), 0U);
}

TEST(Mailbox, RefusesWhenFullAndDestroysTheTask) {
  auto mailbox = Mailbox::create(1).value();
  auto held = std::make_shared<int>(0);
  EXPECT_TRUE(mailbox->post([] {}));
  EXPECT_FALSE(mailbox->post([held] {}));
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(mailbox->run_posted(), 1U);
  EXPECT_TRUE(mailbox->post([] {}));
}

TEST(Mailbox, HasRoomForWhatMustNotBeRefused) {
  auto mailbox = Mailbox::create(1).value();
  std::vector<int> order;
  EXPECT_TRUE(mailbox->post([&] { order.push_back(1); }));
  EXPECT_TRUE(mailbox->post([&] { order.push_back(2); }, Room::kKept));
  EXPECT_FALSE(mailbox->post([&] { order.push_back(3); }));
  for (std::size_t i = 1; i < Mailbox::kKeptTasks; ++i) EXPECT_TRUE(mailbox->post([] {}, Room::kKept));
  EXPECT_FALSE(mailbox->post([] {}, Room::kKept));
  EXPECT_EQ(mailbox->run_posted(), 1 + Mailbox::kKeptTasks);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Mailbox, RefusesWhenClosedButRunsWhatItHadTaken) {
  auto mailbox = Mailbox::create(8).value();
  int runs = 0;
  EXPECT_TRUE(mailbox->post([&] { ++runs; }));
  mailbox->close();
  EXPECT_FALSE(mailbox->post([&] { ++runs; }));
  EXPECT_EQ(mailbox->run_posted(), 1U);
  EXPECT_EQ(runs, 1);
}

TEST(Mailbox, RunsATaskPostedByATaskTheNextTime) {
  auto mailbox = Mailbox::create(8).value();
  int runs = 0;
  EXPECT_TRUE(mailbox->post([&] {
    ++runs;
    EXPECT_TRUE(mailbox->post([&] { ++runs; }));
  }));
  EXPECT_EQ(mailbox->run_posted(), 1U);
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(readable(mailbox->wake_fd()));
  EXPECT_EQ(mailbox->run_posted(), 1U);
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace pvrdma::shard
