#include "transport/hca/fake_nic.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

namespace pvrdma::transport::hca {
namespace {

constexpr std::string_view kFlushed = "Work Request Flushed Error";
constexpr std::string_view kRetryExceeded = "transport retry counter exceeded";
constexpr std::string_view kAccess = "remote access error";
constexpr std::string_view kRnr = "RNR retry counter exceeded";

}  // namespace

// A FIFO of fixed capacity.
template <typename T>
class FakeNetwork::Ring {
 public:
  explicit Ring(std::size_t capacity) : items_(capacity) {}
  bool full() const { return count_ == items_.size(); }
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  T& back() { return items_[(first_ + count_ - 1) % items_.size()]; }
  void push(const T& item) { items_[(first_ + count_++) % items_.size()] = item; }
  T pop() {
    T item = items_[first_];
    first_ = (first_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

class FakeNetwork::FakeDomain final : public NicDomain {
 public:
  explicit FakeDomain(FakeNetwork& network) : network_(network) {}
  ~FakeDomain() override { network_.destroyed("a domain"); }

 private:
  FakeNetwork& network_;
};

class FakeNetwork::FakeRegion final : public NicMemoryRegion {
 public:
  FakeRegion(FakeNetwork& network, const Device& device, std::span<std::byte> memory, RemoteAccess access,
             const NicDomain* domain)
      : network_(network),
        device_(device),
        domain_(domain),
        memory_(memory),
        access_(access),
        lkey_(static_cast<std::uint32_t>(network.random_())) {
    network_.regions_.push_back(this);
  }
  ~FakeRegion() override {
    network_.regions_.remove(this);
    network_.destroyed("a region");
  }
  std::uint32_t lkey() const override { return lkey_; }
  std::uint32_t rkey() const override { return ~lkey_; }
  // Null: a peer of a QP of that device and domain may not read there.
  std::byte* readable(const Device& device, const NicDomain* domain, std::uint64_t address,
                      std::uint32_t bytes, std::uint32_t rkey) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    const bool is_in =
        address >= begin && bytes <= memory_.size() && address - begin <= memory_.size() - bytes;
    const bool may =
        &device == &device_ && domain == domain_ && rkey == ~lkey_ && access_ == RemoteAccess::kRead && is_in;
    return may ? memory_.data() + (address - begin) : nullptr;
  }
  bool holds(const RegisteredSpan& place, const NicDomain* domain) const {
    return domain == domain_ && place.lkey == lkey_ && place.data >= memory_.data() &&
           place.data + place.bytes <= memory_.data() + memory_.size();
  }

 private:
  FakeNetwork& network_;
  const Device& device_;
  const NicDomain* const domain_;  // null: the device's default domain
  const std::span<std::byte> memory_;
  const RemoteAccess access_;
  const std::uint32_t lkey_;
};

class FakeNetwork::FakeCq final : public NicCompletionQueue {
 public:
  FakeCq(FakeNetwork& network, std::uint32_t cqes, CqUser& user)
      : network_(network), user_(user), completions_(cqes) {
    network_.cqs_.push_back(this);
  }
  ~FakeCq() override {
    std::erase(network_.cqs_, this);
    network_.destroyed("a CQ");
  }

  std::optional<std::size_t> poll(std::span<NicCompletion> into) override {
    std::size_t count = 0;
    while (count < into.size() && !completions_.empty()) into[count++] = completions_.pop();
    return count;
  }
  void arm() override { is_armed_ = true; }

  void push(const NicCompletion& completion) {
    if (completions_.full()) return network_.crime("a CQ overflowed");
    completions_.push(completion);
    if (std::exchange(is_armed_, false)) fired_ = true;
  }
  bool has_fired() const { return fired_; }
  void tell() {
    fired_ = false;
    user_.on_completions();
  }

 private:
  FakeNetwork& network_;
  CqUser& user_;
  Ring<NicCompletion> completions_;
  bool is_armed_ = false;
  bool fired_ = false;
};

class FakeNetwork::FakeQp final : public NicQueuePair {
 public:
  FakeQp(FakeNetwork& network, Device& device, FakeCq& cq, const QpSize& size, const NicDomain* domain)
      : network_(network),
        device_(device),
        domain_(domain),
        cq_(cq),
        qpn_(network.next_qpn_),
        reads_(size.reads),
        sends_(size.sends),
        receives_(size.receives) {
    network_.next_qpn_ += 3;
    network_.qps_.emplace(qpn_, this);
    ++device_.qps;
  }
  ~FakeQp() override {
    network_.qps_.erase(qpn_);
    --device_.qps;
    network_.destroyed("a QP");
  }

  std::uint32_t qpn() const override { return qpn_; }
  Result<void> connect(const QpConnection& to) override {
    if (std::ranges::find(device_.port.gids, to.own) == device_.port.gids.end())
      return pvrdma::fail("the device has no such GID");
    peer_ = to;
    return {};
  }
  bool post_receive(std::uint64_t id, const RegisteredSpan& into) override {
    if (receives_.full()) {
      network_.crime("more receives than the QP has room for");
      return false;
    }
    if (failed_) {
      cq_.push({.id = id, .trouble = kFlushed});
    } else {
      receives_.push({id, into});
    }
    return true;
  }
  bool post_send(std::uint64_t id, const RegisteredSpan& from, bool signaled) override {
    if (sends_.full()) {
      network_.crime("more sends than the QP has room for");
      return false;
    }
    if (failed_) {
      cq_.push({.id = id, .trouble = kFlushed});
      return true;
    }
    sends_.push({id, from, signaled, leaves()});
    return true;
  }
  bool post_read(std::uint64_t id, const RegisteredSpan& into, std::uint64_t remote_address,
                 std::uint32_t rkey) override {
    if (sends_.full() || reads_ == 0) {
      network_.crime("a read on a QP that has no room for it");
      return false;
    }
    if (failed_) {
      cq_.push({.id = id, .trouble = kFlushed});
      return true;
    }
    sends_.push({id, into, true, leaves(), true, remote_address, rkey});
    return true;
  }
  void fail() override { fail_with(kFlushed); }

  bool is_connected() const { return peer_.has_value() && !failed_; }
  bool is_of(const Device& device) const { return &device == &device_; }
  Instant next_event() const {
    if (failed_ || sends_.empty()) return Instant::never();
    return stuck_since_ ? *stuck_since_ + patience() : sends_.front().leaves;
  }
  // Completes the first work request with `trouble` and flushes the others.
  void fail_with(std::string_view trouble) {
    if (failed_) return;
    failed_ = true;
    while (!sends_.empty()) cq_.push({.id = sends_.pop().id, .trouble = std::exchange(trouble, kFlushed)});
    while (!receives_.empty()) cq_.push({.id = receives_.pop().id, .trouble = kFlushed});
  }

  // Delivers the first packet if the peer can be reached.
  void carry(Instant now) {
    FakeQp* const peer = reachable_peer();
    if (peer == nullptr) {
      if (!stuck_since_) stuck_since_ = now;
      if (now >= *stuck_since_ + patience()) fail_with(kRetryExceeded);
      return;
    }
    stuck_since_.reset();
    const Send send = sends_.pop();
    if (!network_.is_registered(send.from, domain_))
      network_.crime("a send reads memory that is not registered");
    if (send.is_read) return read(send, *peer);
    if (!peer->take(send.from)) {
      network_.crime("a receive queue was empty");
      cq_.push({.id = send.id, .trouble = kRnr});
      return fail_with(kFlushed);
    }
    if (send.signaled) cq_.push({.id = send.id});
  }

 private:
  struct Receive {
    std::uint64_t id;
    RegisteredSpan into;
  };
  struct Send {
    std::uint64_t id;
    RegisteredSpan from;
    bool signaled;
    Instant leaves;
    bool is_read = false;  // `from` is the destination then
    std::uint64_t remote_address = 0;
    std::uint32_t rkey = 0;
  };

  Instant leaves() {
    const Instant now = network_.clock_.now();
    const Instant earliest = sends_.empty() ? now : sends_.back().leaves;
    return std::max(earliest, now + network_.delay());
  }
  // An invalid key moves both QPs to ERR.
  void read(const Send& send, FakeQp& peer) {
    std::byte* source = nullptr;
    for (const FakeRegion* region : network_.regions_) {
      std::byte* const found =
          region->readable(peer.device_, peer.domain_, send.remote_address, send.from.bytes, send.rkey);
      if (found != nullptr) source = found;
    }
    if (source == nullptr || peer.reads_ == 0 || peer_->reads == 0) {
      cq_.push({.id = send.id, .trouble = kAccess});
      fail_with(kFlushed);
      return peer.fail_with(kFlushed);
    }
    if (!network_.loses_reads_) std::memcpy(send.from.data, source, send.from.bytes);
    cq_.push({.id = send.id});
  }

  // Each step of the Local ACK Timeout doubles it.
  Duration patience() const {
    const std::uint8_t timeout = peer_ ? peer_->timeout : kPipeTimeout;
    return network_.patience_ * (1LL << timeout) / (1LL << kPipeTimeout);
  }

  FakeQp* reachable_peer() const {
    if (!peer_ || network_.cut_ || !device_.port.active) return nullptr;
    FakeQp* const other = network_.find(peer_->peer_qpn);
    const bool answers = other != nullptr && other->is_connected() && other->device_.port.active &&
                         other->peer_->peer_qpn == qpn_ && other->peer_->own == peer_->peer &&
                         other->peer_->peer == peer_->own && other->peer_->receive_psn == peer_->send_psn;
    return answers ? other : nullptr;
  }
  bool take(const RegisteredSpan& from) {
    if (receives_.empty()) return false;
    const Receive receive = receives_.pop();
    if (!network_.is_registered(receive.into, domain_))
      network_.crime("a receive writes memory that is not registered");
    if (receive.into.bytes < from.bytes) network_.crime("a message is longer than its receive");
    std::memcpy(receive.into.data, from.data, std::min(from.bytes, receive.into.bytes));
    cq_.push({.id = receive.id, .is_receive = true, .bytes = from.bytes});
    return true;
  }

  FakeNetwork& network_;
  Device& device_;
  const NicDomain* const domain_;
  FakeCq& cq_;
  const std::uint32_t qpn_;
  const std::uint32_t reads_;
  std::optional<QpConnection> peer_;
  bool failed_ = false;
  std::optional<Instant> stuck_since_;
  Ring<Send> sends_;
  Ring<Receive> receives_;
};

class FakeNetwork::FakeNic final : public Nic {
 public:
  FakeNic(FakeNetwork& network, std::string name, Device& device, NicUser& user)
      : network_(network), name_(std::move(name)), device_(device), user_(user) {
    device_.open = this;
  }
  ~FakeNic() override {
    if (device_.open == this) device_.open = nullptr;
    network_.destroyed("a device");
  }

  const std::string& name() const override { return name_; }
  NicLimits limits() const override { return device_.limits; }
  Result<NicPort> port() override {
    if (device_.gone) return fail("the device is gone");
    return device_.port;
  }
  Result<std::unique_ptr<NicDomain>> make_domain() override { return std::make_unique<FakeDomain>(network_); }
  Result<std::unique_ptr<NicMemoryRegion>> register_memory(std::span<std::byte> memory, RemoteAccess access,
                                                           NicDomain* domain) override {
    if (device_.gone || memory.size() > device_.limits.region_bytes) return fail("no such region");
    return std::make_unique<FakeRegion>(network_, device_, memory, access, domain);
  }
  Result<std::unique_ptr<NicCompletionQueue>> make_cq(std::uint32_t cqes, CqUser& user) override {
    if (device_.gone || cqes > device_.limits.cqes) return fail("no such CQ");
    return std::make_unique<FakeCq>(network_, cqes, user);
  }
  Result<std::unique_ptr<NicQueuePair>> make_qp(NicCompletionQueue& cq, const QpSize& size,
                                                NicDomain* domain) override {
    const std::uint32_t most = device_.limits.work_requests;
    if (device_.gone || device_.qps == device_.limits.qps || size.sends > most || size.receives > most ||
        size.reads > device_.limits.reads)
      return fail("no such QP");
    return std::make_unique<FakeQp>(network_, device_, static_cast<FakeCq&>(cq), size, domain);
  }
  std::span<const int> event_fds() const override { return device_.event_fds; }
  void take_events() override {}

  void tell(NicUser::News news) { user_.on_news(news); }

 private:
  FakeNetwork& network_;
  const std::string name_;
  Device& device_;
  NicUser& user_;
};

FakeNetwork::~FakeNetwork() = default;

void FakeNetwork::add(const std::string& name, const NicLimits& limits, std::vector<verbs::Gid> gids) {
  devices_[name] = {.limits = limits, .port = {.active = true, .mtu = 1024, .gids = std::move(gids)}};
}

Result<std::shared_ptr<Nic>> FakeNetwork::open(const std::string& name, NicUser& user) {
  const auto device = devices_.find(name);
  if (device == devices_.end() || device->second.gone) return fail("there is no RDMA device " + name);
  return std::make_shared<FakeNic>(*this, name, device->second, user);
}

void FakeNetwork::set_port(const std::string& name, bool active) {
  devices_.at(name).port.active = active;
  news_.emplace_back(name, active ? NicUser::News::kChanged : NicUser::News::kPortDown);
}

void FakeNetwork::set_gids(const std::string& name, std::vector<verbs::Gid> gids) {
  devices_.at(name).port.gids = std::move(gids);
  news_.emplace_back(name, NicUser::News::kChanged);
}

void FakeNetwork::destroy(const std::string& name) {
  Device& device = devices_.at(name);
  device.gone = true;
  device.port.active = false;
  for (const auto& [qpn, qp] : qps_) {
    if (qp->is_of(device)) qp->fail();
  }
  news_.emplace_back(name, NicUser::News::kGone);
}

int FakeNetwork::break_qps(const std::string& name) {
  int count = 0;
  for (const auto& [qpn, qp] : qps_) {
    if (!qp->is_of(devices_.at(name)) || !qp->is_connected()) continue;
    qp->fail_with(kRetryExceeded);
    ++count;
  }
  return count;
}

void FakeNetwork::crime(const char* what) {
  ++crimes_;
  static_cast<void>(std::fprintf(stderr, "fake NIC: %s\n", what));
}

void FakeNetwork::destroyed(const char* what) {
  if (!on_shard_()) return;
  ++crimes_;
  static_cast<void>(std::fprintf(stderr, "fake NIC: %s is destroyed on a shard\n", what));
}

bool FakeNetwork::is_registered(const RegisteredSpan& place, const NicDomain* domain) const {
  return std::ranges::any_of(regions_,
                             [&](const FakeRegion* region) { return region->holds(place, domain); });
}

FakeNetwork::FakeQp* FakeNetwork::find(std::uint32_t qpn) const {
  const auto found = qps_.find(qpn);
  return found == qps_.end() ? nullptr : found->second;
}

bool FakeNetwork::run(Instant now) {
  bool worked = false;
  for (const auto& [qpn, qp] : qps_) {
    while (qp->next_event() <= now) {
      const Instant before = qp->next_event();
      qp->carry(now);
      worked = true;
      if (qp->next_event() == before) break;
    }
  }
  for (std::size_t i = 0; i < cqs_.size(); ++i) {
    if (!cqs_[i]->has_fired()) continue;
    worked = true;
    cqs_[i]->tell();
  }
  if (!news_.empty()) {
    worked = true;
    for (const auto& [name, news] : std::exchange(news_, {})) {
      if (FakeNic* const nic = devices_.at(name).open; nic != nullptr) nic->tell(news);
    }
  }
  return worked;
}

Instant FakeNetwork::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& [qpn, qp] : qps_) next = std::min(next, qp->next_event());
  if (std::ranges::any_of(cqs_, [](const FakeCq* cq) { return cq->has_fired(); })) next = Instant{};
  if (!news_.empty()) next = Instant{};
  return next;
}

}  // namespace pvrdma::transport::hca
