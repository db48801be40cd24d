// A server in a process that has no descriptor left.
#include <sys/resource.h>

#include "gtest/gtest.h"

#include "vfio_user/server_fixture.h"

namespace pvrdma::vfio_user {
namespace {

using ServerDescriptorsTest = ServerTest;

TEST_F(ServerDescriptorsTest, WithoutDescriptorsTheListenerRestsAndTheClientIsServedLater) {
  auto server = listen();
  RawPeer peer = connect();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  server->on_listen_ready();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(server->seat().fd(), -1);
  EXPECT_NE(server->accept_again_at(), Instant::never()) << "or the loop would spin";
  EXPECT_FALSE(peer.at_end()) << "it waits in the backlog";
  server->accept_again();
  EXPECT_EQ(server->accept_again_at(), Instant::never());
  server->on_listen_ready();
  peer.send(qemu_version());
  run(*server);
  EXPECT_TRUE(peer.receive());
}

// The last descriptor numbers are reserved for descriptors that clients send in messages.
TEST_F(ServerDescriptorsTest, NobodyIsAcceptedWithTheLastDescriptors) {
  auto server = listen();
  RawPeer peer = connect();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = static_cast<rlim_t>(peer.fd()) + 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  server->on_listen_ready();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(server->seat().fd(), -1);
  EXPECT_TRUE(peer.at_end());
  EXPECT_NE(server->accept_again_at(), Instant::never());
}

}  // namespace
}  // namespace pvrdma::vfio_user
