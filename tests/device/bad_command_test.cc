// Commands that no correct driver sends. Each is refused through ERR and changes nothing, and the adapter
// works afterwards (docs/device.md 3.5, 9).
#include <array>
#include <functional>

#include "device_test.h"

namespace pvrdma::test {
namespace {

using abi::Command;

class BadCommand : public DeviceTest {
 protected:
  void SetUp() override {
    pd_ = must(driver::ProtectionDomain::create(kernel()));
    cq_ = must(driver::CompletionQueue::create(kernel(), 64));
    pages_ = must(device(0).ram().allocate(64 * 4096));
    directory_ = must(driver::PageDirectory::of(device(0).ram(), pages_->pages()));
    errors_before_ = host_.info(0).device_counters.command_errors.total();
  }
  void TearDown() override {
    const auto info = host_.info(0);
    EXPECT_EQ(info.objects.pds, 1u);
    EXPECT_EQ(info.objects.cqs, 1u);
    EXPECT_EQ(info.objects.mrs + info.objects.qps + info.objects.srqs + info.objects.contexts, 0u);
    EXPECT_EQ(info.device_counters.command_errors.total() - errors_before_, refusals_)
        << "each refusal is counted";
    EXPECT_TRUE(device(0).query_port());
    directory_.reset();
    pages_.reset();
    cq_.reset();
    pd_.reset();
    DeviceTest::TearDown();
  }
  driver::Context& kernel() { return device(0).kernel(); }
  driver::CommandChannel& commands() { return device(0).commands(); }

  void refused(Result<> result) {
    EXPECT_FALSE(result);
    ++refusals_;
  }
  template <typename T>
  void refused(const Result<T>& result) {
    EXPECT_FALSE(result);
    ++refusals_;
  }

  // Valid requests, in which a test changes one field.
  abi::CreateMrRequest mr() {
    return {.start = 0x1000,
            .length = 4 * 4096,
            .pdir_dma = directory_->gpa().value,
            .pd_handle = pd_->handle(),
            .access_flags = 1,
            .nchunks = 4};
  }
  abi::CreateCqRequest cq() { return {.pdir_dma = directory_->gpa().value, .cqe = 64, .nchunks = 2}; }
  abi::CreateQpRequest qp() {
    return {.pdir_dma = directory_->gpa().value,
            .pd_handle = pd_->handle(),
            .send_cq_handle = cq_->handle(),
            .recv_cq_handle = cq_->handle(),
            .max_send_wr = 64,
            .max_recv_wr = 64,
            .max_send_sge = 1,
            .max_recv_sge = 1,
            .access_flags = 1,
            .total_chunks = 4,
            .send_chunks = 2,
            .qp_type = 2};
  }
  void bad_mr(const std::function<void(abi::CreateMrRequest&)>& change) {
    abi::CreateMrRequest request = mr();
    change(request);
    refused(commands().call<abi::CreateMrResponse>(Command::kCreateMr, request));
  }
  void bad_cq(const std::function<void(abi::CreateCqRequest&)>& change) {
    abi::CreateCqRequest request = cq();
    change(request);
    refused(commands().call<abi::CreateCqResponse>(Command::kCreateCq, request));
  }
  void bad_qp(const std::function<void(abi::CreateQpRequest&)>& change) {
    abi::CreateQpRequest request = qp();
    change(request);
    refused(commands().call<abi::CreateQpResponseV2>(Command::kCreateQp, request));
  }

  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::CompletionQueue> cq_;
  std::unique_ptr<driver::Buffer> pages_;
  std::unique_ptr<driver::PageDirectory> directory_;
  std::uint64_t errors_before_ = 0;
  std::uint64_t refusals_ = 0;
};

TEST_F(BadCommand, sound_ones_pass) {
  const auto made_mr = must(commands().call<abi::CreateMrResponse>(Command::kCreateMr, mr()));
  const auto made_cq = must(commands().call<abi::CreateCqResponse>(Command::kCreateCq, cq()));
  const auto made_qp = must(commands().call<abi::CreateQpResponseV2>(Command::kCreateQp, qp()));
  EXPECT_NE(made_mr.lkey, 0u);
  EXPECT_NE(made_qp.qp_handle, 0u);
  EXPECT_LT(made_qp.qp_handle, device(0).caps().max_qp);
  must(commands().run(Command::kDestroyQp, abi::DestroyQpRequest{.qp_handle = made_qp.qp_handle}));
  must(commands().run(Command::kDestroyCq, abi::DestroyCqRequest{.cq_handle = made_cq.cq_handle}));
  must(commands().run(Command::kDestroyMr, abi::DestroyMrRequest{.mr_handle = made_mr.mr_handle}));
}

TEST_F(BadCommand, unknown_and_unused_commands) {
  for (const std::uint32_t number : {7u, 21u, 255u, 0x80000000u, 0xffffffffu}) {
    abi::RequestHeader header{.cmd = number};
    EXPECT_NE(must(commands().submit(std::as_bytes(std::span(&header, 1)))), 0u) << number;
    ++refusals_;
  }
}

TEST_F(BadCommand, memory_regions) {
  bad_mr([](auto& r) { r.length = 0; });
  bad_mr([](auto& r) { r.length = ~0ULL; });
  bad_mr([](auto& r) { r.start = ~0ULL - 4096; });
  bad_mr([](auto& r) { r.nchunks = 3; });
  bad_mr([](auto& r) { r.nchunks = 5; });
  bad_mr([](auto& r) { r.start = 0x1001; });  // spans one more page
  bad_mr([](auto& r) { r.nchunks = 0; });
  bad_mr([](auto& r) { r.nchunks = 0xffffffff, r.length = 0xffffffffULL * 4096; });
  bad_mr([](auto& r) { r.pdir_dma = 0; });
  bad_mr([](auto& r) { r.pdir_dma = ~0ULL << 12; });
  bad_mr([](auto& r) { r.pdir_dma += 8; });
  bad_mr([](auto& r) { r.pd_handle = 0xffffff; });
  bad_mr([](auto& r) { r.flags = 3; });
  bad_mr([](auto& r) { r.flags = 4; });
  bad_mr([](auto& r) { r.flags = 1, r.access_flags = 3; });  // DMA with remote write
  bad_mr([](auto& r) { r.flags = 2, r.nchunks = 129; });
  bad_mr([](auto& r) { r.flags = 2, r.nchunks = 0; });
  directory_->set(2, driver::GuestPhys(0x10));
  bad_mr([](auto&) {});
  directory_->set(2, driver::GuestPhys(~0ULL << 12));
  bad_mr([](auto&) {});
  directory_->raw_directory()[0] = 0x1234567;
  bad_mr([](auto&) {});
}

TEST_F(BadCommand, completion_queues) {
  bad_cq([](auto& r) { r.cqe = 0; });
  bad_cq([](auto& r) { r.cqe = 63; });
  bad_cq([](auto& r) { r.cqe = 0x80000000; });
  bad_cq([&](auto& r) { r.cqe = device(0).caps().max_cqe * 2, r.nchunks = 0x10000; });
  bad_cq([](auto& r) { r.cqe = 128; });  // needs 3 pages
  bad_cq([](auto& r) { r.nchunks = 0; });
  bad_cq([](auto& r) { r.nchunks = 1; });
  bad_cq([](auto& r) { r.pdir_dma = 0x7000; });
  bad_cq([](auto& r) { r.ctx_handle = 5; });
  directory_->set(1, driver::GuestPhys(0));
  bad_cq([](auto&) {});
}

// The provider announces more pages than an SRQ needs, so extra pages are allowed. The device checks only the
// needed ones.
TEST_F(BadCommand, more_pages_than_needed_cost_nothing) {
  abi::CreateCqRequest request = cq();
  request.nchunks = 0xffff'ffff;
  const auto made = must(commands().call<abi::CreateCqResponse>(Command::kCreateCq, request));
  must(commands().run(Command::kDestroyCq, abi::DestroyCqRequest{.cq_handle = made.cq_handle}));
}

TEST_F(BadCommand, queue_pairs) {
  for (const std::uint8_t type : std::array<std::uint8_t, 8>{0, 3, 5, 6, 8, 9, 10, 255})
    bad_qp([&](auto& r) { r.qp_type = type; });
  bad_qp([](auto& r) { r.pd_handle = 4711; });
  bad_qp([](auto& r) { r.send_cq_handle = 4000; });
  bad_qp([](auto& r) { r.recv_cq_handle = 0xffffffff; });
  bad_qp([](auto& r) { r.max_send_wr = 63; });
  bad_qp([](auto& r) { r.max_send_wr = 0; });
  bad_qp([](auto& r) { r.max_recv_wr = 3; });
  bad_qp([](auto& r) { r.max_send_wr = 0x80000000; });
  bad_qp([](auto& r) { r.max_recv_wr = 0x40000000; });
  bad_qp([](auto& r) { r.max_send_sge = 0x10000000; });
  bad_qp([](auto& r) { r.max_recv_sge = 0xffffffff; });
  bad_qp([](auto& r) { r.max_send_sge = 200; });
  bad_qp([](auto& r) { r.max_send_sge = 4; });  // 64 * 256 B need 4 pages, but there are 2
  bad_qp([](auto& r) { r.total_chunks = 0; });
  bad_qp([](auto& r) { r.total_chunks = 2; });
  bad_qp([](auto& r) { r.total_chunks = 3; });  // no page for the receive ring
  bad_qp([](auto& r) { r.send_chunks = 0; });
  bad_qp([](auto& r) { r.send_chunks = 1; });
  bad_qp([](auto& r) { r.send_chunks = 4; });
  bad_qp([](auto& r) { r.send_chunks = 0xffff; });
  bad_qp([](auto& r) { r.total_chunks = 0xffff; });  // entries past the list are not pages
  bad_qp([](auto& r) { r.is_srq = 1, r.srq_handle = 99, r.max_recv_wr = 0; });
  bad_qp([](auto& r) { r.pdir_dma = 0; });
  directory_->set(0, driver::GuestPhys(0xfff));
  bad_qp([](auto&) {});
}

TEST_F(BadCommand, shared_receive_queues) {
  const abi::CreateSrqRequest good{.pdir_dma = directory_->gpa().value,
                                   .pd_handle = pd_->handle(),
                                   .nchunks = 5,
                                   .attrs = {.max_wr = 64, .max_sge = 1}};
  const auto bad = [&](const std::function<void(abi::CreateSrqRequest&)>& change) {
    abi::CreateSrqRequest request = good;
    change(request);
    refused(commands().call<abi::CreateSrqResponse>(Command::kCreateSrq, request));
  };
  bad([](auto& r) { r.attrs.max_wr = 0; });
  bad([](auto& r) { r.attrs.max_wr = 65; });
  bad([](auto& r) { r.attrs.max_wr = 1u << 31; });
  bad([](auto& r) { r.attrs.max_sge = 0x1000; });
  bad([](auto& r) { r.attrs.srq_limit = 65; });
  bad([](auto& r) { r.srq_type = 1; });
  bad([](auto& r) { r.nchunks = 1; });
  bad([](auto& r) { r.pd_handle = 1234; });
  bad([](auto& r) { r.pdir_dma = 0; });
}

TEST_F(BadCommand, user_contexts) {
  const std::uint64_t own = device(0).uar_pfn(0);
  for (const std::uint64_t pfn :
       {own, own - 1, own + device(0).caps().max_uar, std::uint64_t{0}, ~std::uint64_t{0}}) {
    refused(commands().call<abi::CreateUcResponse>(Command::kCreateUc, abi::CreateUcRequest{.pfn64 = pfn}));
  }
  auto user = must(driver::Context::create_user(device(0)));
  refused(commands().call<abi::CreateUcResponse>(
      Command::kCreateUc, abi::CreateUcRequest{.pfn64 = device(0).uar_pfn(user->uar())}));
  refused(
      commands().call<abi::CreatePdResponse>(Command::kCreatePd, abi::CreatePdRequest{.ctx_handle = 999}));
  must(user->destroy());
  refused(commands().call<abi::CreatePdResponse>(Command::kCreatePd,
                                                 abi::CreatePdRequest{.ctx_handle = user->handle()}));
}

TEST_F(BadCommand, handles_that_name_nothing) {
  for (const std::uint32_t handle : {77u, 0xffffu, 0xffffffffu}) {
    refused(commands().run(Command::kDestroyPd, abi::DestroyPdRequest{.pd_handle = handle}));
    refused(commands().run(Command::kDestroyMr, abi::DestroyMrRequest{.mr_handle = handle}));
    refused(commands().run(Command::kDestroyCq, abi::DestroyCqRequest{.cq_handle = handle}));
    refused(commands().run(Command::kDestroyQp, abi::DestroyQpRequest{.qp_handle = handle}));
    refused(commands().run(Command::kDestroySrq, abi::DestroySrqRequest{.srq_handle = handle}));
    refused(commands().run(Command::kDestroyUc, abi::DestroyUcRequest{.ctx_handle = handle}));
    refused(commands().call<abi::ModifyQpResponse>(Command::kModifyQp,
                                                   abi::ModifyQpRequest{.qp_handle = handle}));
    refused(
        commands().call<abi::QueryQpResponse>(Command::kQueryQp, abi::QueryQpRequest{.qp_handle = handle}));
    refused(commands().call<abi::QuerySrqResponse>(Command::kQuerySrq,
                                                   abi::QuerySrqRequest{.srq_handle = handle}));
    refused(commands().run(Command::kModifySrq,
                           abi::ModifySrqRequest{.srq_handle = handle, .attr_mask = abi::kSrqAttrLimit}));
  }
  // The kernel's context.
  refused(commands().run(Command::kDestroyUc, abi::DestroyUcRequest{.ctx_handle = 0}));
}

TEST_F(BadCommand, objects_in_use_stay) {
  {
    RcEndpoint end(device(0), gid_of(0));
    refused(end.own_pd->destroy());
    refused(end.send_cq->destroy());
    refused(end.recv_cq->destroy());
    EXPECT_TRUE(end.qp->query());
  }
}

TEST_F(BadCommand, ports_pkeys_and_gids) {
  refused(device(0).query_port(0));
  refused(device(0).query_port(2));
  refused(device(0).query_pkey(1));
  refused(device(0).query_pkey(0, 2));
  refused(device(0).bind_gid(device(0).caps().gid_tbl_len, gid_of(7)));
  refused(device(0).bind_gid(0xffffffff, gid_of(7)));
  refused(device(0).bind_gid(1, abi::Gid{}));
  must(device(1).query_port());
  refused(device(0).bind_gid(1, gid_of(1)));  // the GID is bound to the other adapter
  refused(device(0).unbind_gid(0, gid_of(5)));
  refused(device(0).unbind_gid(3, gid_of(0)));
  refused(commands().run(
      Command::kCreateBind,
      abi::CreateBindRequest{.mtu = 1024, .vlan = 0xfff, .index = 1, .new_gid = gid_of(7), .gid_type = 1}));
  refused(commands().run(
      Command::kCreateBind,
      abi::CreateBindRequest{.mtu = 1024, .vlan = 0xfff, .index = 1, .new_gid = gid_of(7), .gid_type = 3}));
}

TEST_F(BadCommand, gids_can_be_bound_moved_and_bound_again) {
  must(device(0).bind_gid(5, gid_of(7)));
  must(device(0).unbind_gid(5, gid_of(7)));
  must(device(1).bind_gid(2, gid_of(7)));
  refused(device(0).bind_gid(5, gid_of(7)));
  must(device(1).unbind_gid(2, gid_of(7)));
  must(device(0).bind_gid(5, gid_of(7)));
  must(device(0).unbind_gid(5, gid_of(7)));
}

}  // namespace
}  // namespace pvrdma::test
