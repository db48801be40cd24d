#include "guest.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/core.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "support/rc_endpoint.h"

namespace pvrdma::bench {
namespace {

constexpr std::uint32_t kNobody = 0xff'fffe;  // a QP number that no engine uses
constexpr std::uint32_t kRingEntries = 16;
constexpr std::uint32_t kFullAccess = test::kFullAccess;

abi::QpAttr in_state(abi::QpState state) {
  abi::QpAttr attributes{};
  attributes.qp_state = static_cast<std::uint32_t>(state);
  attributes.port_num = 1;
  return attributes;
}

std::unique_ptr<driver::Device> open(std::unique_ptr<vfio_user::Client> client,
                                     const driver::DeviceOptions& options) {
  return must(driver::Device::open(must(driver::VfioUserBus::create(std::move(client))), options));
}

}  // namespace

Fd memory_file(std::uint64_t bytes) {
  Fd file(::memfd_create("pvrdma-bench", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    throw std::runtime_error(fmt::format("no memory file of {} bytes: {}", bytes, std::strerror(errno)));
  }
  return file;
}

Guest::Guest(const std::string& socket, const driver::DeviceOptions& options, Duration patience) {
  auto client = must(vfio_user::Client::connect(socket, patience));
  client_ = client.get();
  device_ = open(std::move(client), options);
}

bool Guest::post(driver::Region region, std::uint64_t offset, std::uint32_t value) {
  return client_
      ->region_write(static_cast<std::uint32_t>(region), offset, std::as_bytes(std::span(&value, 1)),
                     vfio_user::WriteMode::kPosted)
      .has_value();
}

std::vector<driver::GuestPhys> pages_from(std::uint64_t iova, std::uint64_t count, std::uint64_t stride) {
  std::vector<driver::GuestPhys> pages;
  pages.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) pages.emplace_back(iova + i * stride * abi::kPageBytes);
  return pages;
}

LargeRegion::LargeRegion(Guest& guest, const std::vector<driver::GuestPhys>& pages)
    : pd(must(driver::ProtectionDomain::create(guest.device().kernel()))),
      directory(must(driver::PageDirectory::of(guest.device().ram(), pages))),
      request{.start = 0,
              .length = pages.size() * abi::kPageBytes,
              .pdir_dma = directory->gpa().value,
              .pd_handle = pd->handle(),
              .access_flags = kFullAccess,
              .nchunks = static_cast<std::uint32_t>(pages.size())} {}

Crowd::Crowd(Guest& guest, driver::Context& context, std::uint32_t count)
    : guest_(guest),
      pd_(must(driver::ProtectionDomain::create(context))),
      cq_(must(driver::CompletionQueue::create(context, 1))),
      ring_(must(guest.device().ram().allocate(3 * abi::kPageBytes))),
      directory_(must(driver::PageDirectory::of(guest.device().ram(), ring_->pages()))) {
  const abi::CreateQpRequest request{.pdir_dma = directory_->gpa().value,
                                     .pd_handle = pd_->handle(),
                                     .send_cq_handle = cq_->handle(),
                                     .recv_cq_handle = cq_->handle(),
                                     .max_send_wr = kRingEntries,
                                     .max_recv_wr = kRingEntries,
                                     .max_send_sge = 1,
                                     .max_recv_sge = 1,
                                     .access_flags = abi::kAccessLocalWrite,
                                     .total_chunks = 3,
                                     .send_chunks = 1,
                                     .qp_type = static_cast<std::uint8_t>(abi::QpType::kRc)};
  while (handles_.size() < count) {
    auto made = guest.device().commands().call<abi::CreateQpResponseV2>(abi::Command::kCreateQp, request);
    if (!made) {
      refusal_ = made.error().message;
      break;
    }
    handles_.push_back(made->qp_handle);
  }
}

Result<> Crowd::modify(std::uint32_t handle, std::uint32_t mask, const abi::QpAttr& attributes) {
  auto done = guest_.device().commands().call<abi::ModifyQpResponse>(
      abi::Command::kModifyQp,
      abi::ModifyQpRequest{.qp_handle = handle, .attr_mask = abi::kQpAttrState | mask, .attrs = attributes});
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<> Crowd::connect(std::size_t index, const driver::Route& route) {
  abi::QpAttr init = in_state(abi::QpState::kInit);
  init.qp_access_flags = kFullAccess;
  abi::QpAttr rtr = in_state(abi::QpState::kRtr);
  rtr.dest_qp_num = kNobody;
  rtr.ah_attr.grh.dgid = route.dgid;
  rtr.ah_attr.grh.hop_limit = route.hop_limit;
  rtr.ah_attr.ah_flags = abi::kAhGrh;
  rtr.ah_attr.port_num = 1;
  rtr.ah_attr.dmac = route.dmac;
  rtr.path_mtu = static_cast<std::uint32_t>(abi::Mtu::k1024);
  rtr.max_dest_rd_atomic = 1;
  rtr.min_rnr_timer = 12;
  abi::QpAttr rts = in_state(abi::QpState::kRts);
  rts.timeout = 31;
  rts.retry_cnt = 7;
  rts.rnr_retry = 7;
  rts.max_rd_atomic = 1;
  const std::uint32_t handle = handles_[index];
  if (auto done = modify(handle, abi::kQpAttrPkeyIndex | abi::kQpAttrAccessFlags | abi::kQpAttrPort, init);
      !done) {
    return done;
  }
  if (auto done = modify(handle,
                         abi::kQpAttrAv | abi::kQpAttrPathMtu | abi::kQpAttrRqPsn | abi::kQpAttrDestQpn |
                             abi::kQpAttrMaxDestRdAtomic | abi::kQpAttrMinRnrTimer,
                         rtr);
      !done) {
    return done;
  }
  return modify(handle,
                abi::kQpAttrSqPsn | abi::kQpAttrTimeout | abi::kQpAttrRetryCnt | abi::kQpAttrRnrRetry |
                    abi::kQpAttrMaxQpRdAtomic,
                rts);
}

void Crowd::start(const abi::Gid& own_gid) {
  const std::uint32_t stride = abi::send_wqe_stride(1).value();
  const driver::WorkRing ring(driver::RingState(ring_->data() + offsetof(abi::RingState, tx)),
                              ring_->data() + abi::kPageBytes, kRingEntries, stride);
  for (std::size_t index = 0; index < size(); ++index) {
    must(connect(index, {.dgid = own_gid}));
    ring.state().clear();
    if (driver::put(ring, 1, driver::wr::write(1, {}, {})) != driver::PostStatus::kOk) {
      throw std::runtime_error("the crowd's ring has no room");
    }
    must(guest_.device().kernel().ring(abi::UarWord::kQp, handle(index) | abi::kQpDoorbellSend));
  }
}

void Crowd::fail(std::size_t index) {
  must(modify(handles_[index], 0, in_state(abi::QpState::kErr)));
}

}  // namespace pvrdma::bench
