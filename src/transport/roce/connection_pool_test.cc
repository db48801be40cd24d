#include "transport/roce/connection_pool.h"

#include <gtest/gtest.h>

#include "verbs/engine_fixture.h"

namespace pvrdma::transport::roce {
namespace {

using verbs::Qpn;

constexpr Mac kMac{{2, 0, 0, 0, 0, 1}};

class ConnectionPoolTest : public testing::Test {
 protected:
  static verbs::Connection ends(std::uint32_t qpn, std::uint8_t peer = 9) {
    return {{verbs::test_gid(51), Qpn(qpn)}, {verbs::test_gid(peer), Qpn(7)}};
  }
  ConnectionPool::Entry* hold(std::uint32_t qpn, std::uint8_t peer = 9) {
    return pool_.hold(a_.engine, ends(qpn, peer), kMac, counters_);
  }

  verbs::TestAdapter a_{51};
  verbs::TestAdapter b_{52};
  pvrdma::roce::Counters counters_;
  ConnectionPool pool_{2};
};

TEST_F(ConnectionPoolTest, FindsByEngineAndQp) {
  ConnectionPool::Entry* one = hold(3);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(pool_.find(a_.engine, Qpn(3)), one);
  EXPECT_EQ(pool_.find(a_.engine, Qpn(4)), nullptr);
  EXPECT_EQ(pool_.find(b_.engine, Qpn(3)), nullptr);
  ConnectionPool::Entry* other = pool_.hold(b_.engine, ends(3), kMac, counters_);
  EXPECT_NE(other, one);
  EXPECT_EQ(pool_.find(b_.engine, Qpn(3)), other);
  EXPECT_EQ(pool_.find(a_.engine, Qpn(3)), one);
}

TEST_F(ConnectionPoolTest, TheNextPathTakesItOver) {
  ConnectionPool::Entry* one = hold(3);
  EXPECT_EQ(hold(3), one);
  pool_.let_go(*one);
  EXPECT_EQ(pool_.find(a_.engine, Qpn(3)), one) << "somebody holds it";
  pool_.let_go(*one);
  EXPECT_EQ(pool_.find(a_.engine, Qpn(3)), nullptr);
  EXPECT_FALSE(one->connection);
}

TEST_F(ConnectionPoolTest, AnotherPeerIsAnotherConnection) {
  ConnectionPool::Entry* old = hold(3, 9);
  ConnectionPool::Entry* young = hold(3, 10);
  ASSERT_NE(young, old);
  EXPECT_EQ(pool_.find(a_.engine, Qpn(3)), young);
  pool_.let_go(*old);
  EXPECT_EQ(pool_.find(a_.engine, Qpn(3)), young);
  pool_.let_go(*young);
  EXPECT_EQ(pool_.find(a_.engine, Qpn(3)), nullptr);
}

TEST_F(ConnectionPoolTest, HasAnEnd) {
  ConnectionPool::Entry* one = hold(3);
  ConnectionPool::Entry* two = hold(4);
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_EQ(hold(5), nullptr);
  EXPECT_EQ(hold(4), two) << "which is there";
  pool_.let_go(*one);
  EXPECT_EQ(hold(5), one);
}

TEST_F(ConnectionPoolTest, WhoIsLetGoIsNotBusy) {
  ConnectionPool::Entry* one = hold(3);
  verbs::LinkedQueue<ConnectionPool::Entry, &ConnectionPool::Entry::busy_link> busy;
  busy.append(*one);
  pool_.let_go(*one);
  EXPECT_TRUE(busy.empty());
}

}  // namespace
}  // namespace pvrdma::transport::roce
