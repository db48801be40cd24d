// Commands on QPs, by REQUEST, with a real engine.
#include <array>
#include <bit>
#include <gtest/gtest.h>

#include "device/commands_fixture.h"

namespace pvrdma::device {
namespace {

class QpCommands : public CommandsFixture {};

INSTANTIATE_TEST_SUITE_P(HardwareVersions, QpCommands, kEveryVersion, version_name);

TEST_P(QpCommands, CreateQpAnswersByVersion) {
  const std::uint32_t pd = guest_.create_pd();
  const auto cq = guest_.create_cq();
  guest_.interrupts(abi::Vector::kResponse);
  const auto request = guest_.qp_request(pd, cq.handle, guest_.pages(3));
  if (separates_qp_handle(GetParam())) {
    const auto answer = ask<abi::CreateQpResponseV2>(Command::kCreateQp, request);
    EXPECT_LT(answer.qp_handle, 32768u);
    EXPECT_NE(answer.qp_handle, 0u);
    EXPECT_EQ(answer.max_send_wr, 16u);
    EXPECT_EQ(answer.max_recv_sge, 1u);
    EXPECT_EQ(answer.max_inline_data, 0u);
  } else {
    const auto answer = ask<abi::CreateQpResponse>(Command::kCreateQp, request);
    EXPECT_LT(answer.qpn, 32768u) << "it is the handle";
    EXPECT_GT(answer.qpn, 1u);
    EXPECT_EQ(answer.max_send_wr, 16u);
    EXPECT_EQ(answer.max_recv_sge, 1u);
  }
}

TEST_P(QpCommands, TheGsiQpIsNumberOneAndTheKernels) {
  const Made gsi = make_qp(0, abi::QpType::kGsi);
  EXPECT_EQ(gsi.qp, 1u);
  const auto context = guest_.create_uc(1);
  const std::uint32_t pd = guest_.create_pd(context);
  const auto cq = guest_.create_cq(context);
  guest_.interrupts(abi::Vector::kResponse);
  expect_refused(Command::kCreateQp, guest_.qp_request(pd, cq.handle, guest_.pages(3), abi::QpType::kGsi),
                 kNotPermitted);
}

TEST_P(QpCommands, CreateQpRefusesHostileNumbers) {
  const std::uint32_t pd = guest_.create_pd();
  const auto cq = guest_.create_cq();
  const auto rings = guest_.pages(3);
  guest_.interrupts(abi::Vector::kResponse);
  const auto good = guest_.qp_request(pd, cq.handle, rings);
  using Request = abi::CreateQpRequest;
  const auto refused = [&](std::uint32_t Request::*field, std::uint32_t value, std::uint32_t why) {
    SCOPED_TRACE(value);
    Request bad = good;
    bad.*field = value;
    expect_refused(Command::kCreateQp, bad, why);
  };
  refused(&Request::pd_handle, 999, kNoSuchObject);
  refused(&Request::send_cq_handle, 999, kNoSuchObject);
  refused(&Request::recv_cq_handle, 0xffff'ffff, kNoSuchObject);
  for (const std::uint32_t bad : {0u, 15u, 1024u, 1u << 31, 0xffff'ffffu}) {
    refused(&Request::max_send_wr, bad, kInvalid);
    refused(&Request::max_recv_wr, bad, kInvalid);
  }
  for (const std::uint32_t bad : {17u, 252u, 0x1000'0000u, 0xffff'ffffu}) {
    refused(&Request::max_send_sge, bad, kInvalid);
    refused(&Request::max_recv_sge, bad, kInvalid);
  }
  Request bad = good;
  bad.total_chunks = 2;  // no room for the receive ring
  expect_refused(Command::kCreateQp, bad, kInvalid);
  bad = good;
  bad.send_chunks = 0xffff;
  expect_refused(Command::kCreateQp, bad, kInvalid);
  bad = good;
  bad.pdir_dma = 0x1000;
  expect_refused(Command::kCreateQp, bad, kBadAddress);
  for (const int type : {0, 3, 5, 6, 8, 9, 10, 255}) {
    bad = good;
    bad.qp_type = static_cast<std::uint8_t>(type);
    expect_refused(Command::kCreateQp, bad, kNotSupported);
  }
  bad = good;
  bad.is_srq = 1;
  bad.srq_handle = 3;
  expect_refused(Command::kCreateQp, bad, kNoSuchObject);
  EXPECT_EQ(counts().qps, 0u);
  tell(Command::kDestroyCq, with(&abi::DestroyCqRequest::cq_handle, cq.handle));  // no QP uses it
  tell(Command::kDestroyPd, with(&abi::DestroyPdRequest::pd_handle, pd));
}

TEST_P(QpCommands, ObjectsOfAQpAreOfOneContext) {
  const auto context = guest_.create_uc(1);
  const std::uint32_t pd = guest_.create_pd(context);
  const auto kernel_cq = guest_.create_cq();
  guest_.interrupts(abi::Vector::kResponse);
  expect_refused(Command::kCreateQp, guest_.qp_request(pd, kernel_cq.handle, guest_.pages(3)), kNotPermitted);
}

TEST_P(QpCommands, ModifyAndQueryQp) {
  const Made made = make_qp();
  abi::ModifyQpRequest modify{};
  std::array<std::uint8_t, sizeof(abi::QpAttr)> rubbish{};  // in fields that the mask excludes
  rubbish.fill(0xa5);
  modify.attrs = std::bit_cast<abi::QpAttr>(rubbish);
  modify.qp_handle = made.qp;
  modify.attr_mask = 0x39;
  modify.attrs.qp_state = 1;
  modify.attrs.pkey_index = 0;
  modify.attrs.port_num = 1;
  modify.attrs.qp_access_flags = 7;
  ask<abi::ModifyQpResponse>(Command::kModifyQp, modify);
  abi::QueryQpRequest query{};
  query.qp_handle = made.qp;
  const auto attributes = ask<abi::QueryQpResponse>(Command::kQueryQp, query).attrs;
  EXPECT_EQ(attributes.qp_state, 1u);
  EXPECT_EQ(attributes.qp_access_flags, 7u);
  EXPECT_EQ(attributes.cap.max_send_wr, 16u);

  modify.attr_mask = 0x1;
  modify.attrs.qp_state = 3;  // INIT to RTS is not a transition
  expect_refused(Command::kModifyQp, modify, kInvalid);
  modify.attr_mask = 0x129181;
  modify.attrs = {};
  modify.attrs.qp_state = 2;
  modify.attrs.path_mtu = 3;
  modify.attrs.dest_qp_num = 5;
  modify.attrs.ah_attr.ah_flags = 1;
  modify.attrs.ah_attr.port_num = 1;
  modify.attrs.ah_attr.grh.sgid_index = 9;
  expect_refused(Command::kModifyQp, modify, kInvalid);  // no GID is bound there
  auto bind = bind_request(9);
  tell(Command::kCreateBind, bind);
  modify.attrs.max_dest_rd_atomic = 1;
  ask<abi::ModifyQpResponse>(Command::kModifyQp, modify);
  modify.attr_mask = 1;
  modify.attrs.qp_state = 6;
  ask<abi::ModifyQpResponse>(Command::kModifyQp, modify);
  query.qp_handle = 31000;
  expect_refused(Command::kQueryQp, query, kNoSuchObject);
  modify.qp_handle = 31000;
  expect_refused(Command::kModifyQp, modify, kNoSuchObject);
}

TEST_P(QpCommands, DestroyInOrder) {
  const Made made = make_qp();
  expect_refused(Command::kDestroyCq, with(&abi::DestroyCqRequest::cq_handle, made.cq.handle), kBusy);
  expect_refused(Command::kDestroyPd, with(&abi::DestroyPdRequest::pd_handle, made.pd), kBusy);
  tell(Command::kDestroyQp, with(&abi::DestroyQpRequest::qp_handle, made.qp));
  expect_refused(Command::kDestroyQp, with(&abi::DestroyQpRequest::qp_handle, made.qp), kNoSuchObject);
  tell(Command::kDestroyCq, with(&abi::DestroyCqRequest::cq_handle, made.cq.handle));
  tell(Command::kDestroyPd, with(&abi::DestroyPdRequest::pd_handle, made.pd));
}

TEST_P(QpCommands, AContextTakesItsObjectsAlong) {
  const auto context = guest_.create_uc(4);
  make_qp(context);
  EXPECT_EQ(counts().qps, 1u);
  tell(Command::kDestroyUc, with(&abi::DestroyUcRequest::ctx_handle, context));
  const auto left = counts();
  EXPECT_EQ(left.contexts + left.pds + left.cqs + left.qps, 0u);
}

TEST(CommandProfile, EsxiHasThreeUdQps) {
  auto config = test::some_adapter();
  config.profile = Profile::kEsxi;
  FakeGuest guest(config);
  guest.bring_up();
  const std::uint32_t pd = guest.create_pd();
  const auto cq = guest.create_cq();
  for (int i = 0; i < 4; ++i) {
    const auto request = guest.qp_request(pd, cq.handle, guest.pages(3), abi::QpType::kUd);
    EXPECT_EQ(guest.command(Command::kCreateQp, request), i < 3 ? 0u : kNoMemory) << i;
  }
}

}  // namespace
}  // namespace pvrdma::device
