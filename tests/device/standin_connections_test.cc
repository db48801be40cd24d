// The connections of programs as the stand-in makes them: ids, events, requests that move between files.
#include <arpa/inet.h>
#include <cerrno>
#include <fstream>
#include <infiniband/verbs.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "standin/cm_command.h"
#include "standin/gid_list.h"
#include "standin_fixture.h"

namespace pvrdma::test {
namespace {

class StandInConnectionsTest : public StandInTest {
 protected:
  // A new id of the program that wants to connect, with the number `uid`.
  static std::uint32_t create_id(const Program& program, std::uint32_t file, std::uint64_t uid) {
    const auto made = program.wire.cm_command(
        file, RDMA_USER_CM_CMD_CREATE_ID,
        rdma_ucm_create_id{.uid = uid, .response = 8, .ps = RDMA_PS_TCP, .qp_type = 2, .reserved = {}});
    EXPECT_EQ(made.header.error, 0);
    return made.as<rdma_ucm_create_id_resp>().id;
  }
  // With the port of these tests.
  static sockaddr_in6 ipv4_of(const char* address) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(7174);
    EXPECT_EQ(::inet_pton(AF_INET, address, &v4.sin_addr), 1);
    sockaddr_in6 wide{};
    std::memcpy(&wide, &v4, sizeof(v4));
    return wide;
  }
  static void resolve_address(const Program& program, std::uint32_t file, std::uint32_t id,
                              const char* address) {
    rdma_ucm_resolve_ip resolve{};
    resolve.id = id;
    resolve.dst_addr = ipv4_of(address);
    EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_RESOLVE_IP, resolve).header.error, 0);
  }
  static int connect_id(const Program& program, std::uint32_t file, std::uint32_t id, std::uint32_t qpn) {
    rdma_ucm_connect connect{};
    connect.id = id;
    connect.conn_param.qp_num = qpn;
    connect.conn_param.valid = 1;
    return static_cast<int>(program.wire.cm_command(file, RDMA_USER_CM_CMD_CONNECT, connect).header.error);
  }
  // A new id, numbered 3, that listens at the port of these tests.
  static std::uint32_t make_listener(const Program& program, std::uint32_t file) {
    const std::uint32_t listener = create_id(program, file, 3);
    rdma_ucm_bind_ip bind{};
    bind.id = listener;
    bind.addr = ipv4_of("0.0.0.0");
    EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_BIND_IP, bind).header.error, 0);
    const rdma_ucm_listen listen{.id = listener, .backlog = 4};
    EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_LISTEN, listen).header.error, 0);
    return listener;
  }
  // Moves the id from file `from` to file `to`.
  static int migrate_id(const Program& program, std::uint32_t to, std::uint32_t id, std::uint32_t from) {
    const rdma_ucm_migrate_id request{.response = 8, .id = id, .fd = from};
    return static_cast<int>(program.wire.cm_command(to, RDMA_USER_CM_CMD_MIGRATE_ID, request).header.error);
  }
  static int close_cm_file(const Program& program, std::uint32_t file) {
    return static_cast<int>(
        program.wire.call({.type = PVRDMA_WIRE_CLOSE_CM_FILE, .file = file}).header.error);
  }
  static int destroy_id(const Program& program, std::uint32_t file, std::uint32_t id) {
    const rdma_ucm_destroy_id request{.response = 8, .id = id, .reserved = 0};
    return static_cast<int>(program.wire.cm_command(file, RDMA_USER_CM_CMD_DESTROY_ID, request).header.error);
  }
  static bool is_readable(const Fd& descriptor, int timeout_ms = 0) {
    pollfd waiting{descriptor.get(), POLLIN, 0};
    return ::poll(&waiting, 1, timeout_ms) == 1;
  }
  // Nothing: no event waits.
  static std::optional<rdma_ucm_event_resp> connection_event(const Program& program, std::uint32_t file) {
    const auto reply =
        program.wire.cm_command(file, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{.response = 8});
    if (reply.header.error != 0) return std::nullopt;
    return reply.as<rdma_ucm_event_resp>();
  }
  // The next event of that number.
  static rdma_ucm_event_resp wait_for_connection_event(const Program& program, std::uint32_t file,
                                                       std::uint32_t number) {
    for (int i = 0; i < 2000; ++i) {
      const auto event = connection_event(program, file);
      if (event && event->event == number) return *event;
      if (!event) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "no event " << number;
    return {};
  }
  static void resolve_route(const Program& program, std::uint32_t file, std::uint32_t id) {
    const rdma_ucm_resolve_route resolve{.id = id, .timeout_ms = 1000};
    EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_RESOLVE_ROUTE, resolve).header.error, 0);
  }

  // Makes a listener of `file`, and a client of another file, whose request is the one event that waits.
  static std::uint32_t make_listener_with_request(Program& program, const WireClient::Reply& file) {
    const std::uint32_t listener = make_listener(program, file.header.file);
    const std::uint32_t client_file = program.wire.open_cm_file();
    const std::uint32_t client = create_id(program, client_file, 1);
    resolve_address(program, client_file, client, "10.99.0.1");
    resolve_route(program, client_file, client);
    const auto qp = program.create_qp(program.create_cq().handle);
    EXPECT_EQ(connect_id(program, client_file, client, qp.qpn), 0);
    EXPECT_TRUE(is_readable(file.fds.at(0), 10'000)) << "the request does not come";
    return listener;
  }
  // The request is the file's one event, and nothing else makes the file readable.
  static void expect_one_request(const Program& program, const WireClient::Reply& file) {
    EXPECT_TRUE(is_readable(file.fds.at(0)));
    const auto event = connection_event(program, file.header.file);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event, standin::kCmConnectRequest);
    EXPECT_EQ(event->uid, 3u);
    expect_no_event(program, file);
  }
  static void expect_no_event(const Program& program, const WireClient::Reply& file) {
    EXPECT_FALSE(is_readable(file.fds.at(0)));
    EXPECT_FALSE(connection_event(program, file.header.file));
  }
};

INSTANTIATE_TEST_SUITE_P(Doorbells, StandInConnectionsTest,
                         ::testing::Values(DoorbellMode::kTrapped, DoorbellMode::kMapped), doorbells_name);

TEST_P(StandInConnectionsTest, RefusesIdsOfAnotherFile) {
  const Program owner(standin_.folder());
  const Program other(standin_.folder());
  const std::uint32_t file = owner.wire.open_cm_file();
  const std::uint32_t id = create_id(owner, file, 1);
  const rdma_ucm_listen listen{.id = id, .backlog = 1};
  const std::uint32_t second = owner.wire.open_cm_file();
  EXPECT_EQ(owner.wire.cm_command(second, RDMA_USER_CM_CMD_LISTEN, listen).header.error, EINVAL);
  const std::uint32_t foreign = other.wire.open_cm_file();
  EXPECT_EQ(other.wire.cm_command(foreign, RDMA_USER_CM_CMD_LISTEN, listen).header.error, EINVAL);
  const rdma_ucm_listen of_nobody{.id = id + 1, .backlog = 1};
  EXPECT_EQ(owner.wire.cm_command(file, RDMA_USER_CM_CMD_LISTEN, of_nobody).header.error, ENOENT);
  EXPECT_EQ(migrate_id(other, foreign, id, file), EINVAL) << "the number means a file of the caller";
  EXPECT_EQ(migrate_id(owner, second, id + 1, file), ENOENT) << "nobody has it";
  EXPECT_EQ(migrate_id(owner, second, id, file), 0);
  EXPECT_EQ(owner.wire.cm_command(second, RDMA_USER_CM_CMD_LISTEN, listen).header.error, 0);
}

TEST_P(StandInConnectionsTest, RequestThatWaitsMovesWithItsListener) {
  Program program(standin_.folder());
  const auto before = program.wire.open_cm_descriptor();
  const auto after = program.wire.open_cm_descriptor();
  const std::uint32_t listener = make_listener_with_request(program, before);
  EXPECT_EQ(migrate_id(program, after.header.file, listener, before.header.file), 0);
  expect_no_event(program, before);
  EXPECT_EQ(destroy_id(program, before.header.file, listener), EINVAL) << "it is the other file's now";
  EXPECT_EQ(close_cm_file(program, before.header.file), 0);
  expect_one_request(program, after);
}

TEST_P(StandInConnectionsTest, RequestThatHasMovedGoesWithItsListener) {
  Program program(standin_.folder());
  const auto before = program.wire.open_cm_descriptor();
  const auto after = program.wire.open_cm_descriptor();
  const std::uint32_t listener = make_listener_with_request(program, before);
  EXPECT_EQ(migrate_id(program, after.header.file, listener, before.header.file), 0);
  EXPECT_TRUE(is_readable(after.fds.at(0)));
  EXPECT_EQ(destroy_id(program, after.header.file, listener), 0);
  expect_no_event(program, before);
  expect_no_event(program, after);
}

TEST_P(StandInConnectionsTest, RequestMovesThereAndBack) {
  Program program(standin_.folder());
  const auto before = program.wire.open_cm_descriptor();
  const auto after = program.wire.open_cm_descriptor();
  const std::uint32_t listener = make_listener_with_request(program, before);
  EXPECT_EQ(migrate_id(program, after.header.file, listener, before.header.file), 0);
  EXPECT_EQ(migrate_id(program, before.header.file, listener, after.header.file), 0);
  expect_no_event(program, after);
  expect_one_request(program, before);
}

TEST_P(StandInConnectionsTest, RefusesToMoveIdsFromFilesThatAreNotThere) {
  const Program program(standin_.folder());
  const std::uint32_t target = program.wire.open_cm_file();
  const std::uint32_t closed = program.wire.open_cm_file();
  const std::uint32_t id = create_id(program, target, 1);
  const std::uint32_t lost = create_id(program, closed, 2);
  EXPECT_EQ(close_cm_file(program, closed), 0);
  EXPECT_EQ(migrate_id(program, target, lost, closed), EINVAL);
  EXPECT_EQ(migrate_id(program, target, id, PVRDMA_WIRE_MAX_CM_FILES), EINVAL);
  EXPECT_EQ(migrate_id(program, target, id, UINT32_MAX), EINVAL);
  EXPECT_EQ(migrate_id(program, closed, id, target), EBADF);
  EXPECT_EQ(migrate_id(program, target, id, target), 0) << "it is where it was";
}

// A peer takes a second connection of a QP as the first one's end, so a program names its own QPs only.
TEST_P(StandInConnectionsTest, RefusesToConnectTheQpOfAnotherProcess) {
  Program owner(standin_.folder());
  Program other(standin_.folder());
  const auto foreign = owner.create_qp(owner.create_cq().handle);
  const auto own = other.create_qp(other.create_cq().handle);
  const std::uint32_t file = other.wire.open_cm_file();
  make_listener(other, file);
  const std::uint32_t id = create_id(other, file, 1);
  resolve_address(other, file, id, "10.99.0.1");
  resolve_route(other, file, id);
  EXPECT_EQ(connect_id(other, file, id, foreign.qpn), EINVAL);
  EXPECT_EQ(connect_id(other, file, id, 0), EINVAL);
  EXPECT_EQ(connect_id(other, file, id, own.qpn), 0);

  const auto request = wait_for_connection_event(other, file, standin::kCmConnectRequest);
  rdma_ucm_accept accept{};
  accept.id = request.id;
  accept.conn_param.qp_num = foreign.qpn;
  accept.conn_param.valid = 1;
  EXPECT_EQ(other.wire.cm_command(file, RDMA_USER_CM_CMD_ACCEPT, accept).header.error, EINVAL);
  accept.conn_param.qp_num = own.qpn;
  EXPECT_EQ(other.wire.cm_command(file, RDMA_USER_CM_CMD_ACCEPT, accept).header.error, 0);

  ib_uverbs_destroy_qp destroy{.response = 8, .qp_handle = own.handle, .reserved = 0};
  EXPECT_EQ(other.wire.command(other.file, IB_USER_VERBS_CMD_DESTROY_QP, destroy).header.error, 0);
  const std::uint32_t second = create_id(other, file, 2);
  resolve_address(other, file, second, "10.99.0.1");
  resolve_route(other, file, second);
  EXPECT_EQ(connect_id(other, file, second, own.qpn), EINVAL) << "it is destroyed";
}

// As in the kernel, a program that knows the path sets it instead of resolving the route.
TEST_P(StandInConnectionsTest, PathThatAProgramSetsIsARoute) {
  const Program program(standin_.folder());
  const std::uint32_t file = program.wire.open_cm_file();
  const std::uint32_t id = create_id(program, file, 1);
  rdma_ucm_set_option option{};
  option.id = id;
  option.level = RDMA_OPTION_IB;
  option.optname = RDMA_OPTION_IB_PATH;
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_SET_OPTION, option).header.error, EINVAL)
      << "no address yet";
  resolve_address(program, file, id, "10.99.0.1");
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_SET_OPTION, option).header.error, 0);
  EXPECT_EQ(connection_event(program, file)->event, standin::kCmAddrResolved);
  const auto event = connection_event(program, file);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event, standin::kCmRouteResolved);
}

TEST_P(StandInConnectionsTest, TellsAnEdgeTriggeredPollOfEachConnectionEvent) {
  const Program program(standin_.folder());
  const auto opened = program.wire.open_cm_descriptor();
  const Fd poll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event wanted{.events = EPOLLIN | EPOLLET, .data = {}};
  ASSERT_EQ(::epoll_ctl(poll.get(), EPOLL_CTL_ADD, opened.fds.at(0).get(), &wanted), 0);
  const std::uint32_t id = create_id(program, opened.header.file, 1);
  epoll_event happened{};
  EXPECT_EQ(::epoll_wait(poll.get(), &happened, 1, 0), 0);
  resolve_address(program, opened.header.file, id, "10.99.0.1");
  EXPECT_EQ(::epoll_wait(poll.get(), &happened, 1, 0), 1);
  EXPECT_EQ(::epoll_wait(poll.get(), &happened, 1, 0), 0);
  resolve_route(program, opened.header.file, id);
  EXPECT_EQ(::epoll_wait(poll.get(), &happened, 1, 0), 1) << "though the first event still waits";
}

TEST_P(StandInConnectionsTest, RefusesBadCommandsOfConnections) {
  const Program program(standin_.folder());
  const std::uint32_t file = program.wire.open_cm_file();
  const rdma_ucm_get_event get{.response = 8};
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_GET_EVENT, get).header.error, EAGAIN);
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_CONNECT, get).header.error, EINVAL) << "too short";
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_RESOLVE_ADDR, get).header.error, ENOSYS);
  EXPECT_EQ(program.wire.cm_command(file + 1, RDMA_USER_CM_CMD_GET_EVENT, get).header.error, EBADF);
  rdma_ucm_create_id create{
      .uid = 1, .response = 8, .ps = RDMA_PS_IPOIB, .qp_type = IBV_QPT_UD, .reserved = {}};
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_CREATE_ID, create).header.error, EPROTONOSUPPORT);
  create.ps = RDMA_PS_TCP;
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_CREATE_ID, create).header.error, EPROTONOSUPPORT);
  const rdma_ucm_join_mcast join{};
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_JOIN_MCAST, join).header.error, EOPNOTSUPP);
}

TEST_P(StandInConnectionsTest, GivesIdsForDatagramsTheQpOfAService) {
  Program program(standin_.folder());
  const std::uint32_t file = program.wire.open_cm_file();
  const auto make = [&](std::uint64_t uid) {
    const rdma_ucm_create_id create{
        .uid = uid, .response = 8, .ps = RDMA_PS_UDP, .qp_type = IBV_QPT_UD, .reserved = {}};
    return program.wire.cm_command(file, RDMA_USER_CM_CMD_CREATE_ID, create).as<rdma_ucm_create_id_resp>().id;
  };
  const std::uint32_t server = make(1);
  rdma_ucm_bind_ip bind{};
  bind.id = server;
  bind.addr = ipv4_of("10.99.0.1");
  ASSERT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_BIND_IP, bind).header.error, 0);
  const rdma_ucm_listen listen{.id = server, .backlog = 4};
  ASSERT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_LISTEN, listen).header.error, 0);
  const std::uint32_t client = make(2);
  resolve_address(program, file, client, "10.99.0.1");
  resolve_route(program, file, client);
  ASSERT_EQ(connect_id(program, file, client, 0), 0) << "the client's QP has no meaning here";

  const auto request = wait_for_connection_event(program, file, standin::kCmConnectRequest);
  EXPECT_EQ(request.param.ud.private_data_len, cm::kUserSidrReqBytes);
  const auto cq = program.create_cq();
  const auto qp = program.create_qp(cq.handle);
  rdma_ucm_accept accept{};
  accept.uid = 3;
  accept.id = request.id;
  accept.conn_param.valid = 1;
  accept.conn_param.qp_num = qp.qpn + 1;
  EXPECT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_ACCEPT, accept).header.error, EINVAL)
      << "no QP of the process";
  accept.conn_param.qp_num = qp.qpn;
  ASSERT_EQ(program.wire.cm_command(file, RDMA_USER_CM_CMD_ACCEPT, accept).header.error, 0);

  const auto answer = wait_for_connection_event(program, file, standin::kCmEstablished);
  EXPECT_EQ(answer.uid, 2u);
  EXPECT_EQ(answer.param.ud.qp_num, qp.qpn);
  EXPECT_EQ(answer.param.ud.qkey, cm::kUdpQkey);
  EXPECT_EQ(std::memcmp(answer.param.ud.ah_attr.grh.dgid, gid_.raw.data(), gid_.raw.size()), 0);
  EXPECT_EQ(answer.param.ud.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(answer.param.ud.ah_attr.is_global, 1);

  const rdma_ucm_init_qp_attr init{.response = 8, .id = client, .qp_state = IBV_QPS_INIT};
  const auto attributes =
      program.wire.cm_command(file, RDMA_USER_CM_CMD_INIT_QP_ATTR, init).as<ib_uverbs_qp_attr>();
  EXPECT_EQ(attributes.qkey, cm::kUdpQkey);
  EXPECT_TRUE(attributes.qp_attr_mask & IBV_QP_QKEY);
}

TEST_P(StandInConnectionsTest, StaysWhileItEndsTheConnectionsOfAProgramThatEnded) {
  standin_.stop();
  ServedHost host({.adapter_count = 1, .doorbells = GetParam()});
  RunningStandIn standin(host.socket_path(0), std::chrono::milliseconds(50));
  {
    Program program(standin.folder());
    const auto qp = program.create_qp(program.create_cq().handle);
    const std::uint32_t file = program.wire.open_cm_file();
    const std::uint32_t id = create_id(program, file, 1);
    resolve_address(program, file, id, "10.99.0.77");  // which nobody has
    resolve_route(program, file, id);
    EXPECT_EQ(connect_id(program, file, id, qp.qpn), 0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  { const Program program(standin.folder()); }
  EXPECT_EQ(standin.stop(), standin::End::kStopped);
}

}  // namespace
}  // namespace pvrdma::test
