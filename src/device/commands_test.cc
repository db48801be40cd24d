// Commands on all objects except QPs, by REQUEST, with a real engine: layouts, refusals, ERR, response
// interrupt.
#include <cerrno>
#include <gtest/gtest.h>

#include "device/capabilities.h"
#include "device/commands_fixture.h"

namespace pvrdma::device {
namespace {

class Commands : public CommandsFixture {};

INSTANTIATE_TEST_SUITE_P(HardwareVersions, Commands, kEveryVersion, version_name);

TEST_P(Commands, QueryPort) {
  abi::QueryPortRequest request{};
  request.port_num = 1;
  auto port = ask<abi::QueryPortResponse>(Command::kQueryPort, request).attrs;
  EXPECT_EQ(port.state, 4u);
  EXPECT_EQ(port.phys_state, 5);
  EXPECT_EQ(port.active_mtu, 3u) << "the enumeration, not bytes";
  EXPECT_EQ(port.gid_tbl_len, guest_.load<abi::DeviceSharedRegion>(guest_.region_address).caps.gid_tbl_len);
  EXPECT_EQ(port.pkey_tbl_len, 1);
  guest_.adapter().set_link(false);
  port = ask<abi::QueryPortResponse>(Command::kQueryPort, request).attrs;
  EXPECT_EQ(port.state, 1u);
  EXPECT_EQ(port.phys_state, 3);
  request.port_num = 2;
  expect_refused(Command::kQueryPort, request, kInvalid);
}

TEST_P(Commands, QueryPkey) {
  abi::QueryPkeyRequest request{};
  request.port_num = 1;
  EXPECT_EQ(ask<abi::QueryPkeyResponse>(Command::kQueryPkey, request).pkey, 0xffff);
  request.index = 1;
  expect_refused(Command::kQueryPkey, request, kInvalid);
}

TEST_P(Commands, UserContexts) {
  abi::CreateUcRequest request{};
  request.pfn64 = FakeGuest::kUarPageFrame + 7;
  const auto context = ask<abi::CreateUcResponse>(Command::kCreateUc, request).ctx_handle;
  EXPECT_NE(context, 0u) << "0 is the kernel";
  EXPECT_EQ(counts().contexts, 1u);
  expect_refused(Command::kCreateUc, request, kInvalid);  // the page is in use
  for (const std::uint64_t frame : {0ULL, 1024ULL, ~0ULL, ~0ULL - 0xffff'ffff}) {
    request.pfn64 = FakeGuest::kUarPageFrame + frame;
    expect_refused(Command::kCreateUc, request, kInvalid);
  }
  tell(Command::kDestroyUc, with(&abi::DestroyUcRequest::ctx_handle, context));
  expect_refused(Command::kDestroyUc, with(&abi::DestroyUcRequest::ctx_handle, context), kNoSuchObject);
  expect_refused(Command::kDestroyUc, abi::DestroyUcRequest{}, kNoSuchObject);
}

TEST_P(Commands, NarrowPageFramesComeWithRubbishAbove) {
  abi::CreateUcRequest request{};
  request.pfn64 = 0xdead'0000'0000'0000 | (FakeGuest::kUarPageFrame + 3);
  if (has_wide_page_frames(GetParam())) {
    expect_refused(Command::kCreateUc, request, kInvalid);
  } else {
    ask<abi::CreateUcResponse>(Command::kCreateUc, request);
  }
}

TEST_P(Commands, ProtectionDomains) {
  const auto pd = ask<abi::CreatePdResponse>(Command::kCreatePd, abi::CreatePdRequest{}).pd_handle;
  EXPECT_LT(pd, 1u << 24);
  expect_refused(Command::kCreatePd, with(&abi::CreatePdRequest::ctx_handle, 9u), kNoSuchObject);
  tell(Command::kDestroyPd, with(&abi::DestroyPdRequest::pd_handle, pd));
  expect_refused(Command::kDestroyPd, with(&abi::DestroyPdRequest::pd_handle, pd), kNoSuchObject);
}

TEST_P(Commands, MemoryRegions) {
  abi::CreateMrRequest request{};
  request.pd_handle = guest_.create_pd();
  guest_.interrupts(abi::Vector::kResponse);
  request.flags = abi::kMrDma;
  request.access_flags = 1;
  const auto dma = ask<abi::CreateMrResponse>(Command::kCreateMr, request);
  EXPECT_EQ(dma.lkey, dma.rkey);
  EXPECT_NE(dma.lkey, 0u);

  const auto pages = guest_.pages(3);
  request.flags = 0;
  request.access_flags = 0x10'0005;  // perftest's relaxed ordering
  request.start = 0x7f00'0000'0800;
  request.length = 8192;
  request.pdir_dma = pages.directory;
  request.nchunks = 3;
  const auto user = ask<abi::CreateMrResponse>(Command::kCreateMr, request);
  EXPECT_NE(user.rkey, dma.rkey);
  request.nchunks = 2;
  expect_refused(Command::kCreateMr, request, kInvalid);
  request.nchunks = 3;
  request.start = ~0ULL - 100;
  expect_refused(Command::kCreateMr, request, kInvalid);
  request.start = 0x800;
  request.pdir_dma = 0;
  expect_refused(Command::kCreateMr, request, kBadAddress);
  request.flags = 3;
  expect_refused(Command::kCreateMr, request, kInvalid);
  request.flags = 4;
  expect_refused(Command::kCreateMr, request, kInvalid);
  expect_refused(Command::kDestroyPd, with(&abi::DestroyPdRequest::pd_handle, request.pd_handle), kBusy);
  tell(Command::kDestroyMr, with(&abi::DestroyMrRequest::mr_handle, user.mr_handle));
  expect_refused(Command::kDestroyMr, with(&abi::DestroyMrRequest::mr_handle, user.mr_handle), kNoSuchObject);
  EXPECT_EQ(counts().mrs, 1u);
}

TEST_P(Commands, DmaAndFastRegisterAreTheKernels) {
  const auto context = guest_.create_uc(1);
  abi::CreateMrRequest request{};
  request.pd_handle = guest_.create_pd(context);
  guest_.interrupts(abi::Vector::kResponse);
  request.flags = abi::kMrDma;
  expect_refused(Command::kCreateMr, request, kNotPermitted);
  request.flags = abi::kMrFastReg;
  request.nchunks = 128;
  expect_refused(Command::kCreateMr, request, kNotPermitted);
  request.pd_handle = guest_.create_pd();
  guest_.interrupts(abi::Vector::kResponse);
  const auto fast = ask<abi::CreateMrResponse>(Command::kCreateMr, request);
  EXPECT_NE(fast.lkey >> 8, 0u) << "the low byte is the consumer's";
}

TEST_P(Commands, CompletionQueues) {
  const auto pages = guest_.pages(2);
  abi::CreateCqRequest request{};
  request.pdir_dma = pages.directory;
  request.cqe = 64;
  request.nchunks = 2;
  const auto cq = ask<abi::CreateCqResponse>(Command::kCreateCq, request);
  EXPECT_EQ(cq.cqe, 64u) << "the guest adopts it";
  EXPECT_LT(cq.cq_handle, 4096u);
  for (const std::uint32_t bad : {0u, 63u, 128u, 1u << 19, 0x8000'0000u}) {
    request.cqe = bad;  // not a power of two, more than the pages hold, more than max_cqe
    expect_refused(Command::kCreateCq, request, kInvalid);
  }
  request.cqe = 64;
  request.ctx_handle = 5;
  expect_refused(Command::kCreateCq, request, kNoSuchObject);
  request.ctx_handle = 0;
  request.pdir_dma = FakeGuest::kRamBase + (64u << 20);
  expect_refused(Command::kCreateCq, request, kBadAddress);
  EXPECT_EQ(counts().cqs, 1u) << "a refused CQ leaves nothing behind";
  tell(Command::kDestroyCq, with(&abi::DestroyCqRequest::cq_handle, cq.cq_handle));
  expect_refused(Command::kDestroyCq, with(&abi::DestroyCqRequest::cq_handle, cq.cq_handle), kNoSuchObject);
}

TEST_P(Commands, ResizeIsRefused) {
  expect_refused(Command::kResizeCq, abi::ResizeCqRequest{}, kNotSupported);
}

TEST_P(Commands, SharedReceiveQueues) {
  const auto pages = guest_.pages(2);
  abi::CreateSrqRequest request{};
  request.pd_handle = guest_.create_pd(guest_.create_uc(1));
  guest_.interrupts(abi::Vector::kResponse);
  request.pdir_dma = pages.directory;
  request.nchunks = 2;
  request.attrs = {64, 1, 0, 0};
  if (!offers_srq(GetParam())) {
    expect_refused(Command::kCreateSrq, request, kNotSupported);
    EXPECT_EQ(guest_.load<abi::DeviceSharedRegion>(guest_.region_address).caps.max_srq, 0u);
    return;
  }
  const auto srq = ask<abi::CreateSrqResponse>(Command::kCreateSrq, request).srqn;
  EXPECT_LT(srq, 256u);
  request.attrs.max_wr = 63;
  expect_refused(Command::kCreateSrq, request, kInvalid);
  request.attrs.max_wr = 64;
  request.srq_type = 1;
  expect_refused(Command::kCreateSrq, request, kNotSupported);

  abi::ModifySrqRequest modify{};
  modify.srq_handle = srq;
  modify.attr_mask = abi::kSrqAttrLimit | abi::kSrqAttrMaxWr;
  modify.attrs.srq_limit = 16;
  modify.attrs.max_wr = 0xffff'ffff;
  tell(Command::kModifySrq, modify);
  const auto attributes =
      ask<abi::QuerySrqResponse>(Command::kQuerySrq, with(&abi::QuerySrqRequest::srq_handle, srq)).attrs;
  EXPECT_EQ(attributes.srq_limit, 0u) << "no receive is posted, so the limit has raised its event already";
  EXPECT_EQ(attributes.max_wr, 64u);
  modify.attrs.srq_limit = 65;
  expect_refused(Command::kModifySrq, modify, kInvalid);
  modify.attr_mask = abi::kSrqAttrMaxWr;
  expect_refused(Command::kModifySrq, modify, kInvalid);
  tell(Command::kDestroySrq, with(&abi::DestroySrqRequest::srq_handle, srq));
  expect_refused(Command::kQuerySrq, with(&abi::QuerySrqRequest::srq_handle, srq), kNoSuchObject);
  expect_refused(Command::kDestroySrq, with(&abi::DestroySrqRequest::srq_handle, srq), kNoSuchObject);
}

TEST_P(Commands, GidTable) {
  auto request = bind_request(2);
  tell(Command::kCreateBind, request);
  const auto gids = guest_.adapter().info().gids;
  ASSERT_EQ(gids.size(), 1u);
  EXPECT_EQ(gids[0].index, 2u);
  EXPECT_EQ(gids[0].gid.to_string(), "fe80::250:56ff:fe01:203");
  request.gid_type = 3;
  expect_refused(Command::kCreateBind, request, kInvalid);
  request.gid_type = static_cast<std::uint8_t>(3 - static_cast<int>(default_roce(GetParam())));
  expect_refused(Command::kCreateBind, request, kInvalid);
  request = bind_request(64);
  expect_refused(Command::kCreateBind, request, kInvalid);
  request = bind_request();
  request.vlan = 5;
  expect_refused(Command::kCreateBind, request, kNotSupported);
  request = bind_request();
  request.new_gid.raw[15] = 99;
  guest_.port.accepts_gids = false;
  expect_refused(Command::kCreateBind, request, kAddressInUse);

  abi::DestroyBindRequest unbind{};
  unbind.index = 2;
  expect_refused(Command::kDestroyBind, unbind, kNoSuchObject);
  unbind.dest_gid = bind_request().new_gid;
  tell(Command::kDestroyBind, unbind);
  EXPECT_TRUE(guest_.adapter().info().gids.empty());
  expect_refused(Command::kDestroyBind, unbind, kNoSuchObject);
}

TEST_P(Commands, UnknownCommandsAndLostSlots) {
  guest_.store(guest_.region.cmd_slot_dma, abi::RequestHeader{0, 21, 0});
  guest_.write_register(abi::Register::kRequest, 0);
  EXPECT_EQ(guest_.read_register(abi::Register::kErr), kNotSupported);
  guest_.adapter().dma_unmap_all();
  guest_.write_register(abi::Register::kRequest, 0);
  EXPECT_EQ(guest_.read_register(abi::Register::kErr), static_cast<std::uint32_t>(EFAULT));
  EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 0u);
  EXPECT_EQ(guest_.adapter().info().device_counters.command_errors.not_supported, 1u);
  EXPECT_EQ(guest_.adapter().info().device_counters.command_errors.not_ready, 1u);
}

TEST_P(Commands, AFailureIsForgottenByTheNextCommand) {
  expect_refused(Command::kDestroyPd, with(&abi::DestroyPdRequest::pd_handle, 5u), kNoSuchObject);
  ask<abi::CreatePdResponse>(Command::kCreatePd, abi::CreatePdRequest{});
  expect_refused(Command::kDestroyPd, with(&abi::DestroyPdRequest::pd_handle, 500u), kNoSuchObject);
  EXPECT_EQ(guest_.control(static_cast<std::uint32_t>(abi::Ctl::kUnquiesce)), 0u);
}

TEST(CommandErrors, AreCountedByKind) {
  using verbs::CommandError;
  CommandErrors errors;
  for (const auto why : {CommandError::kNoSuchObject, CommandError::kBusy, CommandError::kNoMemory,
                         CommandError::kBadAddress, CommandError::kInvalid, CommandError::kNotPermitted,
                         CommandError::kNotSupported, CommandError::kAddressInUse}) {
    const auto before = errors.total();
    errors.count(why);
    EXPECT_EQ(errors.total(), before + 1) << static_cast<int>(why);
  }
  EXPECT_EQ(errors.no_memory, 1u);
}

TEST(PortMtu, IsTheLargestThatItsNetworkCarries) {
  const std::pair<NetworkMtu, abi::Mtu> cases[] = {
      {1280, abi::Mtu::k1024}, {1500, abi::Mtu::k1024}, {2143, abi::Mtu::k1024}, {2144, abi::Mtu::k2048},
      {4191, abi::Mtu::k2048}, {4192, abi::Mtu::k4096}, {9000, abi::Mtu::k4096}};
  for (const auto& [network, port] : cases) {
    auto config = test::some_adapter();
    config.mtu = network;
    FakeGuest guest(config);
    guest.bring_up();
    abi::QueryPortRequest request{};
    request.port_num = 1;
    EXPECT_EQ(guest.command(Command::kQueryPort, request), 0u);
    const auto attrs = guest.response<abi::QueryPortResponse>().attrs;
    EXPECT_EQ(attrs.active_mtu, static_cast<std::uint32_t>(port)) << network;
    EXPECT_EQ(attrs.max_mtu, static_cast<std::uint32_t>(abi::Mtu::k4096));
  }
}

TEST(CommandLimits, TableFullIsNoMemory) {
  auto config = test::some_adapter();
  config.limits = limits_of(HardwareVersion::k14, Profile::kOpen);
  config.limits->max_pd = 4;
  FakeGuest guest(config);
  guest.bring_up();
  std::uint32_t err = 0;
  for (int i = 0; i < 5 && err == 0; ++i) err = guest.command(Command::kCreatePd, abi::CreatePdRequest{});
  EXPECT_EQ(err, kNoMemory);
}

}  // namespace
}  // namespace pvrdma::device
