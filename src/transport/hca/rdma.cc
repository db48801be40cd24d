#include "transport/hca/rdma.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <infiniband/verbs.h>
#include <utility>

#include "base/result.h"

namespace pvrdma::transport::hca {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint32_t kMtuBytesOfCode0 = 128;  // IBV_MTU_256 is 1
constexpr std::uint8_t kRetries = 6;             // on Soft-RoCE, 7 means infinite retries
constexpr std::uint8_t kHopLimit = 64;
constexpr std::size_t kEventsPerCall = 32;

template <auto Function>
struct Call {
  template <typename T>
  void operator()(T* object) const {
    static_cast<void>(Function(object));
  }
};
using Context = std::unique_ptr<ibv_context, Call<ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Call<ibv_dealloc_pd>>;
using Channel = std::unique_ptr<ibv_comp_channel, Call<ibv_destroy_comp_channel>>;

Failure refused(const std::string& device, const char* doing, int error) {
  std::string message = fmt::format("RDMA device {}: cannot {}: {}", device, doing, std::strerror(error));
  if (error == ENOMEM)
    message += "; raise the limit of locked memory (LimitMEMLOCK=infinity in the unit, ulimit -l)";
  return fail(error, std::move(message));
}

std::uint32_t mtu_bytes(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? kMtuBytesOfCode0 << mtu : 0;
}
ibv_mtu mtu_code(std::uint32_t bytes) {
  for (const ibv_mtu code : {IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_512}) {
    if (bytes >= mtu_bytes(code)) return code;
  }
  return IBV_MTU_256;
}

class RdmaRegion final : public NicMemoryRegion {
 public:
  explicit RdmaRegion(ibv_mr* mr) : mr_(mr) {}
  std::uint32_t lkey() const override { return mr_->lkey; }
  std::uint32_t rkey() const override { return mr_->rkey; }

 private:
  const std::unique_ptr<ibv_mr, Call<ibv_dereg_mr>> mr_;
};

class RdmaCq final : public NicCompletionQueue {
 public:
  explicit RdmaCq(ibv_cq* cq) : cq_(cq) {}
  ibv_cq* get() const { return cq_.get(); }

  std::optional<std::size_t> poll(std::span<NicCompletion> into) override {
    std::array<ibv_wc, 32> found;
    const int most = static_cast<int>(std::min(into.size(), found.size()));
    const int count = ibv_poll_cq(cq_.get(), most, found.data());
    if (count < 0) return std::nullopt;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& one = found[static_cast<std::size_t>(i)];
      into[static_cast<std::size_t>(i)] = {
          .id = one.wr_id,
          // A failed completion has no valid opcode.
          .is_receive = one.status == IBV_WC_SUCCESS && (one.opcode & IBV_WC_RECV) != 0,
          .bytes = one.byte_len,
          .trouble = one.status == IBV_WC_SUCCESS ? std::string_view() : ibv_wc_status_str(one.status)};
    }
    return static_cast<std::size_t>(count);
  }
  void arm() override { static_cast<void>(ibv_req_notify_cq(cq_.get(), 0)); }

 private:
  const std::unique_ptr<ibv_cq, Call<ibv_destroy_cq>> cq_;
};

class RdmaDomain final : public NicDomain {
 public:
  explicit RdmaDomain(Pd pd) : pd_(std::move(pd)) {}
  ibv_pd* get() const { return pd_.get(); }

 private:
  const Pd pd_;
};

class RdmaQp final : public NicQueuePair {
 public:
  RdmaQp(ibv_qp* qp, std::uint32_t reads, std::string device)
      : qp_(qp), reads_(reads), device_(std::move(device)) {}

  std::uint32_t qpn() const override { return qp_->qp_num; }

  Result<void> init() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = kPort;
    attributes.qp_access_flags = reads_ != 0 ? IBV_ACCESS_REMOTE_READ : 0;
    return modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                  "bring a QP to INIT");
  }
  Result<void> connect(const QpConnection& to) override {
    const auto index = gid_index(to.own);
    if (!index) return Failure(index.error());
    ibv_qp_attr ready{};
    ready.qp_state = IBV_QPS_RTR;
    ready.path_mtu = mtu_code(to.mtu);
    ready.dest_qp_num = to.peer_qpn;
    ready.rq_psn = to.receive_psn;
    ready.max_dest_rd_atomic = depth(to);
    ready.min_rnr_timer = 1;
    ready.ah_attr.is_global = 1;
    ready.ah_attr.port_num = kPort;
    ready.ah_attr.grh.hop_limit = kHopLimit;
    ready.ah_attr.grh.sgid_index = *index;
    std::memcpy(ready.ah_attr.grh.dgid.raw, to.peer.bytes.data(), to.peer.bytes.size());
    auto done = modify(ready,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                       fmt::format("connect a QP to {}", to.peer.to_string()).c_str());
    if (!done) return done;
    ibv_qp_attr sending{};
    sending.qp_state = IBV_QPS_RTS;
    sending.timeout = to.timeout;
    sending.retry_cnt = kRetries;
    sending.rnr_retry = 0;  // credits rule RNR out
    sending.sq_psn = to.send_psn;
    sending.max_rd_atomic = depth(to);
    return modify(sending,
                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC,
                  "bring a QP to RTS");
  }

  bool post_receive(std::uint64_t id, const RegisteredSpan& into) override {
    ibv_sge sge = sge_of(into);
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_.get(), &wr, &bad) == 0;
  }
  bool post_send(std::uint64_t id, const RegisteredSpan& from, bool signaled) override {
    ibv_sge sge = sge_of(from);
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_.get(), &wr, &bad) == 0;
  }
  bool post_read(std::uint64_t id, const RegisteredSpan& into, std::uint64_t remote_address,
                 std::uint32_t rkey) override {
    ibv_sge sge = sge_of(into);
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = remote_address;
    wr.wr.rdma.rkey = rkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_.get(), &wr, &bad) == 0;
  }
  void fail() override {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    static_cast<void>(ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE));
  }

 private:
  // Some devices refuse 0.
  std::uint8_t depth(const QpConnection& to) const {
    return static_cast<std::uint8_t>(std::clamp(std::min(to.reads, reads_), 1U, 255U));
  }
  static ibv_sge sge_of(const RegisteredSpan& place) {
    return {reinterpret_cast<std::uintptr_t>(place.data), place.bytes, place.lkey};
  }
  Result<void> modify(ibv_qp_attr& attributes, int mask, const char* doing) {
    if (const int error = ibv_modify_qp(qp_.get(), &attributes, mask); error != 0)
      return refused(device_, doing, error);
    return {};
  }
  // The index of a RoCE v2 GID. Indices change when addresses are added or removed.
  Result<std::uint8_t> gid_index(const verbs::Gid& gid) const {
    std::array<ibv_gid_entry, 256> table{};
    const ssize_t count = ibv_query_gid_table(qp_->context, table.data(), table.size(), 0);
    for (ssize_t i = 0; i < count; ++i) {
      const ibv_gid_entry& one = table[static_cast<std::size_t>(i)];
      if (one.port_num == kPort && one.gid_type == IBV_GID_TYPE_ROCE_V2 &&
          std::memcmp(one.gid.raw, gid.bytes.data(), gid.bytes.size()) == 0)
        return static_cast<std::uint8_t>(one.gid_index);
    }
    return pvrdma::fail(EADDRNOTAVAIL,
                        fmt::format("RDMA device {} has no GID {} any more", device_, gid.to_string()));
  }

  const std::unique_ptr<ibv_qp, Call<ibv_destroy_qp>> qp_;
  const std::uint32_t reads_;
  const std::string device_;
};

class Rdma final : public Nic {
 public:
  Rdma(Context context, Pd pd, Channel channel, const ibv_device_attr& attributes, NicUser& user)
      : name_(ibv_get_device_name(context->device)),
        attributes_(attributes),
        user_(user),
        context_(std::move(context)),
        pd_(std::move(pd)),
        channel_(std::move(channel)),
        fds_{channel_->fd, context_->async_fd} {}

  const std::string& name() const override { return name_; }
  NicLimits limits() const override {
    const auto number = [](int value) { return static_cast<std::uint32_t>(std::max(value, 0)); };
    return {.qps = number(attributes_.max_qp),
            .work_requests = number(attributes_.max_qp_wr),
            .sges = number(attributes_.max_sge),
            .cqes = number(attributes_.max_cqe),
            .regions = number(attributes_.max_mr),
            .region_bytes = attributes_.max_mr_size,
            .reads = number(attributes_.max_qp_rd_atom)};
  }

  Result<NicPort> port() override {
    ibv_port_attr attributes{};
    if (const int error = ibv_query_port(context_.get(), kPort, &attributes); error != 0)
      return refused(name_, "query its port", error);
    NicPort port;
    port.active = attributes.state == IBV_PORT_ACTIVE;
    port.mtu = mtu_bytes(attributes.active_mtu);
    std::array<ibv_gid_entry, 256> table{};
    const ssize_t count = ibv_query_gid_table(context_.get(), table.data(), table.size(), 0);
    for (ssize_t i = 0; i < count; ++i) {
      const ibv_gid_entry& one = table[static_cast<std::size_t>(i)];
      if (one.port_num != kPort || one.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
      std::memcpy(port.gids.emplace_back().bytes.data(), one.gid.raw, sizeof one.gid.raw);
    }
    return port;
  }

  Result<std::unique_ptr<NicDomain>> make_domain() override {
    Pd pd(ibv_alloc_pd(context_.get()));
    if (!pd) return refused(name_, "make a protection domain", errno);
    return std::make_unique<RdmaDomain>(std::move(pd));
  }
  Result<std::unique_ptr<NicMemoryRegion>> register_memory(std::span<std::byte> memory, RemoteAccess access,
                                                           NicDomain* domain) override {
    const int flags = IBV_ACCESS_LOCAL_WRITE | (access == RemoteAccess::kRead ? IBV_ACCESS_REMOTE_READ : 0);
    ibv_mr* mr = ibv_reg_mr(pd_of(domain), memory.data(), memory.size(), flags);
    if (mr == nullptr) return refused(name_, "register memory", errno);
    return std::make_unique<RdmaRegion>(mr);
  }
  Result<std::unique_ptr<NicCompletionQueue>> make_cq(std::uint32_t cqes, CqUser& user) override {
    ibv_cq* cq = ibv_create_cq(context_.get(), static_cast<int>(cqes), &user, channel_.get(), 0);
    if (cq == nullptr) return refused(name_, "make a CQ", errno);
    return std::make_unique<RdmaCq>(cq);
  }
  Result<std::unique_ptr<NicQueuePair>> make_qp(NicCompletionQueue& cq, const QpSize& size,
                                                NicDomain* domain) override {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = static_cast<RdmaCq&>(cq).get();
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = size.sends;
    attributes.cap.max_recv_wr = size.receives;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
    ibv_qp* made = ibv_create_qp(pd_of(domain), &attributes);
    if (made == nullptr) return refused(name_, "make a QP", errno);
    auto qp = std::make_unique<RdmaQp>(made, size.reads, name_);
    if (auto ready = qp->init(); !ready) return Failure(std::move(ready).error());
    return qp;
  }

  std::span<const int> event_fds() const override { return fds_; }
  void take_events() override {
    for (std::size_t i = 0; i < kEventsPerCall; ++i) {
      ibv_cq* cq = nullptr;
      void* user = nullptr;
      if (ibv_get_cq_event(channel_.get(), &cq, &user) != 0) break;
      static_cast<CqUser*>(user)->on_completions();
      ibv_ack_cq_events(cq, 1);  // until then, ibv_destroy_cq() would block
    }
    for (std::size_t i = 0; i < kEventsPerCall; ++i) {
      ibv_async_event event{};
      if (ibv_get_async_event(context_.get(), &event) != 0) break;
      const ibv_event_type type = event.event_type;
      ibv_ack_async_event(&event);
      tell(type);
    }
  }

 private:
  ibv_pd* pd_of(NicDomain* domain) const {
    return domain == nullptr ? pd_.get() : static_cast<RdmaDomain*>(domain)->get();
  }
  // Reports device and port events. Errors of one QP or CQ also show up in completions.
  void tell(ibv_event_type type) {
    switch (type) {
      case IBV_EVENT_DEVICE_FATAL:
        return user_.on_news(NicUser::News::kGone);
      case IBV_EVENT_PORT_ERR:
        return user_.on_news(NicUser::News::kPortDown);
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_GID_CHANGE:
      case IBV_EVENT_LID_CHANGE:
        return user_.on_news(NicUser::News::kChanged);
      default:
        return;
    }
  }

  const std::string name_;
  const ibv_device_attr attributes_;
  NicUser& user_;
  const Context context_;
  const Pd pd_;
  const Channel channel_;
  const std::array<int, 2> fds_;
};

bool set_nonblocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

Context open_context(const std::string& name) {
  int count = 0;
  const std::unique_ptr<ibv_device*, Call<ibv_free_device_list>> list(ibv_get_device_list(&count));
  for (int i = 0; list && i < count; ++i) {
    if (name == ibv_get_device_name(list.get()[i])) return Context(ibv_open_device(list.get()[i]));
  }
  errno = ENODEV;
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<Nic>> open_rdma(const std::string& device, NicUser& user) {
  Context context = open_context(device);
  if (!context) return refused(device, "open it", errno);
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(context.get(), &attributes); error != 0)
    return refused(device, "query its capabilities", error);
  Pd pd(ibv_alloc_pd(context.get()));
  if (!pd) return refused(device, "make a protection domain", errno);
  Channel channel(ibv_create_comp_channel(context.get()));
  if (!channel) return refused(device, "make a completion channel", errno);
  if (!set_nonblocking(channel->fd) || !set_nonblocking(context->async_fd))
    return refused(device, "read its events", errno);
  return std::make_shared<Rdma>(std::move(context), std::move(pd), std::move(channel), attributes, user);
}

std::vector<std::string> rdma_devices() {
  int count = 0;
  const std::unique_ptr<ibv_device*, Call<ibv_free_device_list>> list(ibv_get_device_list(&count));
  std::vector<std::string> names;
  for (int i = 0; list && i < count; ++i) names.emplace_back(ibv_get_device_name(list.get()[i]));
  return names;
}

}  // namespace pvrdma::transport::hca
