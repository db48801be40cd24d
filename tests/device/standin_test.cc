// The stand-in as programs see it: commands, memory windows, doorbells, events, ends; and what it refuses.
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

class StandInObjectsTest : public StandInTest {
 protected:
  // Waits until the adapter has no objects any more but the stand-in's own, those of queue pair 1.
  void expect_empty() {
    for (int i = 0; i < 1000; ++i) {
      if (is_empty()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "objects of a program that ended are left on the device";
  }
  bool is_empty() {
    const verbs::Engine::ObjectCounts left = host_.info(0).objects;
    return left.qps == 1 && left.cqs == 1 && left.mrs == 1 && left.pds == 1;
  }
};

INSTANTIATE_TEST_SUITE_P(Doorbells, StandInObjectsTest,
                         ::testing::Values(DoorbellMode::kTrapped, DoorbellMode::kMapped), doorbells_name);

TEST_P(StandInObjectsTest, WritesBetweenTwoQpsAndNotifiesOnce) {
  Program program(standin_.folder());
  EXPECT_EQ(bool(program.doorbells), GetParam() == DoorbellMode::kMapped);
  auto channel = program.wire.command(program.file, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
                                      Program::response_only<ib_uverbs_create_comp_channel>());
  ASSERT_EQ(channel.header.error, 0);
  EXPECT_EQ(channel.header.fd_field, 0u);
  const auto cq = program.create_cq(static_cast<std::int32_t>(channel.header.value), 0xbeef);
  const auto from = program.create_qp(cq.handle);
  const auto to = program.create_qp(cq.handle);
  program.connect(from, to, gid_);
  program.connect(to, from, gid_);
  const auto source = program.memory.take(1);
  const auto target = program.memory.take(1);
  const auto source_mr = program.reg_mr(source);
  const auto target_mr = program.reg_mr(target);
  std::memcpy(source.data, "across", 6);

  EXPECT_EQ(program.wire.doorbell(program.file, 4, cq.handle | abi::kCqDoorbellArm).header.error, 0);
  const driver::Sge sge{source.address(), 6, source_mr.lkey};
  program.put(from, driver::wr::write(7, std::span(&sge, 1), {target.address(), target_mr.rkey}));
  EXPECT_EQ(program.wire.doorbell(program.file, 0, from.handle | abi::kQpDoorbellSend).header.error, 0);

  const auto event = next_event<ib_uverbs_comp_event_desc>(channel.fds.at(0));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->cq_handle, 0xbeefu);
  const auto cqe = program.poll(cq);
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->wr_id, 7u);
  EXPECT_EQ(cqe->status, static_cast<std::uint32_t>(abi::CompletionStatus::kSuccess));
  EXPECT_EQ(std::memcmp(target.data, "across", 6), 0);
  // The answer of DESTROY_QP comes after all events: there is no second one.
  auto request = Program::response_only<ib_uverbs_destroy_qp>();
  request.qp_handle = from.handle;
  const auto destroyed = program.wire.command(program.file, IB_USER_VERBS_CMD_DESTROY_QP, request);
  EXPECT_EQ(destroyed.header.error, 0);
  EXPECT_EQ(destroyed.header.user_handle, 0x99u);
  EXPECT_EQ(destroyed.header.response_address, WireClient::kResponseAddress);
  EXPECT_FALSE(next_event<ib_uverbs_comp_event_desc>(channel.fds.at(0), 0));
}

TEST_P(StandInObjectsTest, DestroysWhatAnEndedProgramLeaves) {
  {
    Program program(standin_.folder());
    const auto cq = program.create_cq();
    program.create_qp(cq.handle);
    program.reg_mr(program.memory.take(1));
    EXPECT_FALSE(is_empty());
  }
  expect_empty();
  Program next(standin_.folder());  // and the window's place is free again
  next.create_cq();
}

TEST_P(StandInObjectsTest, ClosingAFileDestroysItsObjectsOnly) {
  Program program(standin_.folder());
  program.create_cq();
  EXPECT_EQ(program.wire.close_file(program.file).header.error, 0);
  EXPECT_TRUE(is_empty());
  EXPECT_EQ(program.wire.close_file(program.file).header.error, EBADF);
  EXPECT_EQ(program.wire.open_file(), program.file);
}

TEST_P(StandInObjectsTest, RefusesHandlesOfAnotherProcess) {
  Program owner(standin_.folder());
  Program other(standin_.folder());
  const auto cq = owner.create_cq();
  const auto qp = owner.create_qp(cq.handle);
  const auto mr = owner.reg_mr(owner.memory.take(1));

  EXPECT_EQ(other.try_create_qp(other.memory.take(2), other.memory.take(1), cq.handle, other.pd).header.error,
            EINVAL);
  ib_uverbs_destroy_qp destroy_qp{.response = 0, .qp_handle = qp.handle, .reserved = 0};
  EXPECT_EQ(other.wire.command(other.file, IB_USER_VERBS_CMD_DESTROY_QP, destroy_qp).header.error, EINVAL);
  ib_uverbs_destroy_cq destroy_cq{.response = 0, .cq_handle = cq.handle, .reserved = 0};
  EXPECT_EQ(other.wire.command(other.file, IB_USER_VERBS_CMD_DESTROY_CQ, destroy_cq).header.error, EINVAL);
  ib_uverbs_dereg_mr dereg{.mr_handle = mr.mr_handle};
  EXPECT_EQ(other.wire.command(other.file, IB_USER_VERBS_CMD_DEREG_MR, dereg).header.error, EINVAL);
  ib_uverbs_dealloc_pd dealloc{.pd_handle = owner.pd};
  EXPECT_EQ(other.wire.command(other.file, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc).header.error, EINVAL);
  ib_uverbs_modify_qp modify{};
  modify.qp_handle = qp.handle;
  EXPECT_EQ(other.wire.command(other.file, IB_USER_VERBS_CMD_MODIFY_QP, modify).header.error, EINVAL);
  auto query = Program::response_only<ib_uverbs_query_qp>();
  query.qp_handle = qp.handle;
  EXPECT_EQ(other.wire.command(other.file, IB_USER_VERBS_CMD_QUERY_QP, query).header.error, EINVAL);
  EXPECT_EQ(other.wire.doorbell(other.file, 0, qp.handle | abi::kQpDoorbellSend).header.error, EINVAL);
  EXPECT_EQ(other.wire.doorbell(other.file, 4, cq.handle | abi::kCqDoorbellArm).header.error, EINVAL);
  // A second file of the owner is as foreign.
  const std::uint32_t second = owner.wire.open_file();
  EXPECT_EQ(owner.wire.command(second, IB_USER_VERBS_CMD_DESTROY_CQ, destroy_cq).header.error, EINVAL);
  EXPECT_EQ(owner.wire.command(owner.file, IB_USER_VERBS_CMD_QUERY_QP, query).header.error, 0);
}

TEST_P(StandInObjectsTest, RefusesRunsOutsideTheirWindows) {
  Program program(standin_.folder(), 1 << 16);
  const auto pages = program.memory.take(4);
  const auto refused = [&](std::vector<pvrdma_wire_run> runs) {
    return program.try_reg_mr(pages, Program::kAllAccess, runs).header.error;
  };
  EXPECT_EQ(refused({{0, 4, 1}}), EFAULT) << "no such window";
  EXPECT_EQ(refused({{(1 << 16) - 4096, 4, 0}}), EFAULT) << "beyond the window's end";
  EXPECT_EQ(refused({{~std::uint64_t{0} & ~std::uint64_t{4095}, 4, 0}}), EFAULT) << "wraps";
  EXPECT_EQ(refused({{1, 4, 0}}), EFAULT) << "not whole pages";
  EXPECT_EQ(refused({{0, 3, 0}}), EFAULT) << "too few";
  EXPECT_EQ(refused({{0, 4, 0}, {0, 1, 0}}), EFAULT) << "too many";
  EXPECT_EQ(refused({{0, 0xffff'ffff, 0}}), EFAULT);
  EXPECT_EQ(refused({}), EFAULT);
  EXPECT_EQ(refused({{4096, 1, 0}, {8192, 3, 0}}), 0) << "in two runs";
}

TEST_P(StandInObjectsTest, ChecksRegionsAsTheKernelDoes) {
  Program program(standin_.folder());
  const auto pages = program.memory.take(1);
  const auto access = [&](std::uint32_t flags) {
    return program.try_reg_mr(pages, flags, std::span(&pages.run, 1)).header.error;
  };
  EXPECT_EQ(access(abi::kAccessRemoteWrite), EINVAL);
  EXPECT_EQ(access(abi::kAccessRemoteAtomic), EINVAL);
  EXPECT_EQ(access(abi::kAccessOnDemand | abi::kAccessLocalWrite), EINVAL);
  EXPECT_EQ(access(1u << 31), EINVAL);
  EXPECT_EQ(access(abi::kAccessLocalWrite | 1u << 20), 0) << "relaxed ordering may be ignored";
  auto request = Program::response_only<ib_uverbs_reg_mr>();
  request.start = pages.address();
  request.hca_va = pages.address() + 1;
  request.length = 4096;
  request.pd_handle = program.pd;
  EXPECT_EQ(program.wire.command(program.file, IB_USER_VERBS_CMD_REG_MR, request, std::span(&pages.run, 1))
                .header.error,
            EINVAL);
  request.hca_va = request.start;
  request.length = 0;
  EXPECT_EQ(program.wire.command(program.file, IB_USER_VERBS_CMD_REG_MR, request, std::span(&pages.run, 1))
                .header.error,
            EINVAL);
}

TEST_P(StandInObjectsTest, ChecksCqsAsTheKernelDoes) {
  Program program(standin_.folder());
  const auto pages = program.memory.take(2);
  EXPECT_EQ(program.try_create_cq(pages, -1, 0, 0).header.error, EINVAL) << "no entries";
  EXPECT_EQ(program.try_create_cq(pages, 17, 0).header.error, EINVAL) << "no such channel";
  EXPECT_EQ(program.try_create_cq(pages, -1, 0, 0x8000'0000).header.error, EINVAL);
}

TEST_P(StandInObjectsTest, ChecksWindows) {
  WireClient wire(standin_.folder());
  ASSERT_EQ(wire.hello().header.error, 0);
  const ProgramMemory read_only(1 << 16, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
  EXPECT_EQ(wire.add_window(read_only.fd(), 0, 1 << 16).header.error, EINVAL);
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(wire.add_window(null.get(), 0, 1 << 16).header.error, EINVAL);
  EXPECT_EQ(wire.add_window(-1, 0, 1 << 16).header.error, EINVAL);
  const ProgramMemory good(1 << 18);
  const Fd for_reading(::open(fmt::format("/proc/self/fd/{}", good.fd()).c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(wire.add_window(for_reading.get(), 0, 4096).header.error, EINVAL);
  EXPECT_EQ(wire.add_window(good.fd(), 0, 1 << 19).header.error, EINVAL);
  EXPECT_EQ(wire.add_window(good.fd(), 1 << 18, 4096).header.error, EINVAL);
  EXPECT_EQ(wire.add_window(good.fd(), ~std::uint64_t{0} - 4095, 4096).header.error, EINVAL);
  EXPECT_EQ(wire.add_window(good.fd(), 1, 4096).header.error, EINVAL);
  EXPECT_EQ(wire.add_window(good.fd(), 0, 0).header.error, EINVAL);
  for (std::uint64_t i = 0; i < PVRDMA_WIRE_MAX_WINDOWS; ++i)
    EXPECT_EQ(wire.add_window(good.fd(), 4096 * i, 4096).header.value, i);
  EXPECT_EQ(wire.add_window(good.fd(), 0, 4096).header.error, EMFILE);
}

TEST_P(StandInObjectsTest, WantsHelloFirstAndOnceAndOfItsVersion) {
  WireClient old(standin_.folder());
  const auto reply = old.hello(PVRDMA_WIRE_VERSION + 1);
  EXPECT_EQ(reply.header.error, EPROTONOSUPPORT);
  EXPECT_EQ(reply.header.value, static_cast<std::uint64_t>(PVRDMA_WIRE_VERSION));
  EXPECT_EQ(old.call({.type = PVRDMA_WIRE_OPEN_FILE}).header.error, EINVAL);
  EXPECT_EQ(old.hello().header.error, 0);
  EXPECT_EQ(old.hello().header.error, EINVAL);
}

TEST_P(StandInObjectsTest, EndsAConnectionThatBreaksTheFraming) {
  const auto ends = [&](std::vector<std::byte> datagram) {
    WireClient wire(standin_.folder());
    EXPECT_EQ(wire.hello().header.error, 0);
    return wire.raw(datagram).ended;
  };
  EXPECT_TRUE(ends(std::vector<std::byte>(1)));
  EXPECT_TRUE(ends(std::vector<std::byte>(33)));
  EXPECT_TRUE(ends(std::vector<std::byte>(150'000)));
  Program still_served(standin_.folder());
  still_served.create_cq();
}

TEST_P(StandInObjectsTest, RefusesInvalidCommands) {
  Program program(standin_.folder());
  EXPECT_EQ(program.wire.call({.type = 99, .file = program.file}).header.error, EINVAL);
  EXPECT_EQ(program.wire.call({.type = PVRDMA_WIRE_COMMAND, .file = program.file}).header.error, EINVAL);
  EXPECT_EQ(program.wire.call({.type = PVRDMA_WIRE_COMMAND, .file = 63}).header.error, EBADF);
  const std::uint64_t word = 0;
  EXPECT_EQ(program.wire.command(program.file, IB_USER_VERBS_CMD_RESIZE_CQ, word).header.error, EOPNOTSUPP);
  EXPECT_EQ(program.wire.command(program.file, IB_USER_VERBS_CMD_ATTACH_MCAST, word).header.error,
            EOPNOTSUPP);
  EXPECT_EQ(program.wire.command(program.file, IB_USER_VERBS_CMD_CREATE_QP, word).header.error, EINVAL);
  EXPECT_EQ(program.wire.doorbell(program.file, 12, 0).header.error, EINVAL);
  EXPECT_EQ(program.wire.doorbell(program.file, 1ULL << 32, 0).header.error, EINVAL);
  EXPECT_EQ(program.wire
                .command(program.file, IB_USER_VERBS_CMD_GET_CONTEXT,
                         Program::response_only<ib_uverbs_get_context>())
                .header.error,
            EINVAL)
      << "a second context";
}

TEST_P(StandInObjectsTest, OffersNoInlineData) {
  Program program(standin_.folder());
  const auto cq = program.create_cq();
  const auto reply =
      program.try_create_qp(program.memory.take(2), program.memory.take(1), cq.handle, program.pd);
  const auto made = reply.as<ib_uverbs_create_qp_resp>();
  EXPECT_EQ(made.max_inline_data, 0u) << "the device takes none, and programs send it without a key";
  auto query = Program::response_only<ib_uverbs_query_qp>();
  query.qp_handle = made.qp_handle;
  const auto queried = program.wire.command(program.file, IB_USER_VERBS_CMD_QUERY_QP, query);
  const auto attributes = queried.as<ib_uverbs_query_qp_resp>();
  EXPECT_EQ(attributes.max_send_wr, Program::kEntries);
  EXPECT_EQ(attributes.max_inline_data, 0u);
}

TEST_P(StandInObjectsTest, AnswersNoMoreThanTheCommandHasRoomFor) {
  Program program(standin_.folder());
  std::array<std::uint32_t, 4> words{IB_USER_VERBS_CMD_QUERY_DEVICE, 0, 0x1000, 0};
  const ib_uverbs_cmd_hdr header{.command = words[0], .in_words = 4, .out_words = 3};
  std::memcpy(words.data(), &header, sizeof(header));
  const auto reply =
      program.wire.call({.type = PVRDMA_WIRE_COMMAND, .file = program.file}, std::as_bytes(std::span(words)));
  EXPECT_EQ(reply.header.error, 0);
  EXPECT_EQ(reply.header.response_bytes, 12u);
  EXPECT_EQ(reply.response.size(), 12u);
}

TEST_P(StandInObjectsTest, DropsEventsForAProgramThatDoesNotReadThem) {
  Program program(standin_.folder());
  auto channel = program.wire.command(program.file, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
                                      Program::response_only<ib_uverbs_create_comp_channel>());
  const auto cq = program.create_cq(static_cast<std::int32_t>(channel.header.value), 0xbeef);
  const auto from = program.create_qp(cq.handle);
  const auto to = program.create_qp(cq.handle);
  program.connect(from, to, gid_);
  program.connect(to, from, gid_);
  // A completion and an event each round; the channel's buffer ends at some thousand.
  std::optional<ib_uverbs_async_event_desc> overrun;
  for (int i = 0; i < 20'000 && !overrun; ++i) {
    ASSERT_EQ(program.wire.doorbell(program.file, 4, cq.handle | abi::kCqDoorbellArm).header.error, 0);
    program.put(from, driver::wr::write(1, {}, {0, 0}));
    ASSERT_EQ(program.wire.doorbell(program.file, 0, from.handle | abi::kQpDoorbellSend).header.error, 0);
    while (!program.poll(cq)) std::this_thread::yield();
    overrun = next_event<ib_uverbs_async_event_desc>(program.async, 0);
  }
  ASSERT_TRUE(overrun);
  EXPECT_EQ(overrun->event_type, static_cast<std::uint32_t>(abi::EventType::kCqErr));
  EXPECT_EQ(overrun->element, 0xbeefu);
}

TEST_P(StandInObjectsTest, TellsProgramsThatTheAdapterIsGone) {
  Program program(standin_.folder());
  program.create_cq();
  host_.on_shard(0, [](adapters::ServedAdapter& service) { service.drop_client("the test ends it"); });
  const auto event = next_event<ib_uverbs_async_event_desc>(program.async);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, static_cast<std::uint32_t>(abi::EventType::kDeviceFatal));
  EXPECT_EQ(program.try_create_cq(program.memory.take(2), -1, 0).header.error, EIO);
  EXPECT_EQ(program.wire.doorbell(program.file, 4, abi::kCqDoorbellArm).header.error, EIO);
  program.wire.disconnect();
  EXPECT_EQ(standin_.join(), standin::End::kAdapterGone);
}

TEST_P(StandInObjectsTest, EndsWhenNobodyUsesItIfItIsTold) {
  standin_.stop();
  ServedHost host({.adapter_count = 1, .doorbells = GetParam()});
  RunningStandIn standin(host.socket_path(0), std::chrono::milliseconds(500));
  { const Program program(standin.folder()); }
  EXPECT_EQ(standin.join(), standin::End::kIdle);
}

TEST_P(StandInObjectsTest, StaysWhileItsFolderIsKept) {
  standin_.stop();
  ServedHost host({.adapter_count = 1, .doorbells = GetParam()});
  RunningStandIn standin(host.socket_path(0), std::chrono::milliseconds(300));
  std::ofstream(standin.folder() + "/keep").flush();
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  { const Program program(standin.folder()); }
  EXPECT_EQ(standin.stop(), standin::End::kStopped);
}

TEST_P(StandInObjectsTest, KeepsDescriptorsForTheProgramsThatItHas) {
  Program program(standin_.folder());
  const auto create_channel = [&] {
    return program.wire.command(program.file, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
                                Program::response_only<ib_uverbs_create_comp_channel>());
  };
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Fd next(::eventfd(0, EFD_CLOEXEC));
  const rlimit few{.rlim_cur = static_cast<rlim_t>(next.get()) + 8, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(create_channel().header.error, EMFILE);
  EXPECT_TRUE(WireClient(standin_.folder()).hello().ended) << "sent away";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(create_channel().header.error, 0);
  EXPECT_EQ(WireClient(standin_.folder()).hello().header.error, 0);
}

TEST_P(StandInObjectsTest, RendersTheDeviceAsFiles) {
  const auto text = [&](const std::string& path) {
    std::ifstream file(standin_.folder() + "/" + PVRDMA_WIRE_TREE_NAME + "/sys/class/" + path);
    std::string line;
    std::getline(file, line);
    return line;
  };
  const std::string device = "infiniband/vmw_pvrdma0/";
  EXPECT_EQ(text("infiniband_verbs/abi_version"), "6");
  EXPECT_EQ(text("infiniband_verbs/uverbs0/ibdev"), "vmw_pvrdma0");
  EXPECT_EQ(text("infiniband_verbs/uverbs0/device/vendor"), "0x15ad");
  EXPECT_EQ(text(device + "device/class"), "0x028000");
  EXPECT_EQ(text(device + "ports/1/state"), "4: ACTIVE");
  EXPECT_EQ(text(device + "ports/1/gids/1"), "0000:0000:0000:0000:0000:ffff:0a63:0001");
  EXPECT_EQ(text(device + "ports/1/gid_attrs/types/1"), "RoCE v2");
  EXPECT_EQ(text(device + "ports/1/gids/2"), "0000:0000:0000:0000:0000:0000:0000:0000");
  EXPECT_EQ(text(device + "ports/1/gid_attrs/types/2"), "");
}

}  // namespace
}  // namespace pvrdma::test
