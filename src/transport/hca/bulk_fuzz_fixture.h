// Shared by the fuzzers of bulk QPs: one VM with its side of a pipe, and a peer that sends well-formed frames
// with false content.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/network_order.h"
#include "guestmem/test_ram.h"
#include "support/fuzz_input.h"
#include "support/manual_clock.h"
#include "transport/hca/fake_nic.h"
#include "transport/hca/hca_shared.h"
#include "transport/hca/pipe.h"
#include "verbs/engine.h"

namespace pvrdma::transport::hca {

inline constexpr SegmentId kSegment{.dvs = 7, .vlan = 11};
inline constexpr std::size_t kPairs = 4;        // each: one VM of the peer and the local VM
inline constexpr std::size_t kConnections = 2;  // of each pair
inline constexpr std::size_t kTargets = kPairs * kConnections;
inline constexpr std::uint32_t kTargetBytes = 16 * 1024;
// The last part belongs to no connection.
inline constexpr std::size_t kRamBytes = (kTargets + 1) * kTargetBytes;
inline constexpr std::uint8_t kFirstPeer = 100;
inline constexpr std::uint32_t kFirstQpn = 2;

inline verbs::Gid gid(std::uint8_t last) {
  verbs::Gid made{{0xfe, 0x80}};
  made.bytes[15] = last;
  return made;
}
inline verbs::Gid peer_gid(std::uint8_t pair) {
  return gid(static_cast<std::uint8_t>(kFirstPeer + pair % kPairs));
}
inline verbs::Qpn qpn_of(std::uint8_t connection) {
  return verbs::Qpn(kFirstQpn + connection % kConnections);
}

struct Nobody final : NicUser {
  void on_news(News) override {}
};

// The Hca and the fabric of the one local VM. Its engine is only an address that identifies it; nobody calls
// it.
class OneVm final : public HcaServices, public Inbound {
 public:
  explicit OneVm(std::shared_ptr<Nic> nic) {
    ram_.map_into(memory_, 0);
    registry_ = std::make_shared<GuestMemory>(std::move(nic), memory_, *this);
  }
  ~OneVm() override {
    registry_.reset();
    finished_.clear();
    buried_.clear();
  }

  verbs::Engine& engine() { return *reinterpret_cast<verbs::Engine*>(&engine_); }
  bool work_on() {
    if (jobs_.empty()) return false;
    finished_.push_back(std::move(jobs_.front()));
    jobs_.pop_front();
    works_ = true;
    finished_.back().first();
    works_ = false;
    finished_.back().second();
    return true;
  }
  bool works() const { return works_; }  // a job is in progress
  void take_memory_away(Pipe& pipe) {
    pipe.stop_all(engine());
    for (std::size_t i = 0; i < kTargets; ++i) end(i);
    registry_->drop({base(), kRamBytes});
    memory_.unmap_all();
    ram_.map_into(memory_, 0);
  }
  void stop(Pipe& pipe, std::size_t pair) {
    for (std::uint32_t i = 0; i < kConnections; ++i) {
      const verbs::Qpn qpn{kFirstQpn + i};
      pipe.stop(kSegment,
                {.local = {gid(1), qpn}, .remote = {peer_gid(static_cast<std::uint8_t>(pair)), qpn}});
      end(target_of(peer_gid(static_cast<std::uint8_t>(pair)), qpn));
    }
  }
  void check() {
    for (std::size_t i = 0; i <= kTargets; ++i) {
      const std::size_t at = i * kTargetBytes;
      const bool may_change = i < kTargets && given_[i] != 0;
      PVRDMA_CHECK(may_change || std::memcmp(ram_.at(at), seen_.data() + at, kTargetBytes) == 0,
                   "only what the engine gave is written");
    }
  }
  // Part of the connection's memory, in two spans.
  guestmem::SpanList memory_of(std::size_t target, std::uint32_t bytes) const {
    guestmem::SpanList spans;  // in reverse order of address
    std::byte* const begin = base() + target * kTargetBytes;
    const std::size_t half = bytes / 2;
    PVRDMA_CHECK(spans.append(begin + half, bytes - half) && spans.append(begin, half), "it fits");
    return spans;
  }
  static std::size_t target_of(const verbs::Gid& peer, verbs::Qpn own) {
    const std::size_t pair = std::size_t{peer.bytes[15]} - kFirstPeer;
    PVRDMA_CHECK(pair < kPairs, "it is of somebody");
    return pair * kConnections + own.value % kConnections;
  }
  void count_lent_answer(std::size_t target) { ++lent_answers_[target]; }
  void expect_all_returned() const {
    for (const int count : lent_answers_) PVRDMA_CHECK(count == 0, "what was lent is back at the end");
  }

  std::uint8_t verdict = 0;

  void work(std::function<void()> job, std::function<void()> then) override {
    jobs_.emplace_back(std::move(job), std::move(then));
  }
  void bury(std::unique_ptr<Buried> dead) override { buried_.push_back(std::move(dead)); }
  std::shared_ptr<GuestMemory> memory_of(const verbs::Engine&) override { return registry_; }
  void give_up_device() override { PVRDMA_CHECK(false, "the device does what it must"); }

  Delivery on_request(HostId, PathKind, SegmentId segment, const verbs::Request& request,
                      verbs::Payload& payload, Instant) override {
    PVRDMA_CHECK(segment == kSegment, "a message is of a segment");
    PVRDMA_CHECK(payload.bytes() == request.bytes, "the bytes are those of the message");
    const std::size_t target = target_of(request.from.gid, request.to.qpn);
    PVRDMA_CHECK(!payload.is_back() || given_[target] != 0, "what comes back was fetched");
    if (!payload.is_ahead()) {  // no other fetch is pending for the connection, or this is the oldest
      if (payload.is_back() && given_[target] != 1) {
        --given_[target];
      } else {
        settle(target);
      }
    }
    return place(target, request.bytes, payload);
  }
  Delivery on_response(HostId, SegmentId segment, const verbs::Response& response, verbs::Payload& payload,
                       Instant) override {
    const bool is_mine = segment == kSegment && response.to.gid == gid(1) &&
                         response.from.gid.bytes[15] >= kFirstPeer &&
                         response.from.gid.bytes[15] < kFirstPeer + kPairs;
    if (!is_mine) return Delivery::kUnknownGid;
    const std::size_t target = target_of(response.from.gid, response.to.qpn);
    if (payload.is_back()) {
      PVRDMA_CHECK(given_[target] != 0, "what comes back was fetched");
      if (--given_[target] == 0) remember(target);
      return Delivery::kDelivered;
    }
    return place(target, response.bytes, payload);
  }
  Delivery on_datagram(HostId, SegmentId, const verbs::Datagram&, const guestmem::SpanList&,
                       Instant) override {
    return Delivery::kDelivered;
  }
  void on_ready(HostId, Instant) override {}
  void on_restored(HostId, Instant) override {}
  void on_up_changed(HostId, Instant) override {}
  verbs::Engine* find_pair(HostId, const VmPair& pair) override {
    return pair.segment == kSegment && pair.own == gid(1) ? &engine() : nullptr;
  }
  void on_pair_restored(HostId, const VmPair& pair, const std::function<bool(verbs::Qpn own)>& affected,
                        Instant) override {
    for (std::uint8_t i = 0; i < kConnections; ++i) {
      if (affected(qpn_of(i))) settle(target_of(pair.peer, qpn_of(i)));
    }
  }
  void on_returned(verbs::Engine& returned_to, verbs::Qpn, std::uint32_t rkey) override {
    PVRDMA_CHECK(&returned_to == &engine(), "it is the lender's");
    PVRDMA_CHECK(lent_answers_[rkey] > 0, "it was lent, and not returned yet");
    --lent_answers_[rkey];
  }

 private:
  std::byte* base() const {
    return memory_.translate(guestmem::GuestPhys(0), kRamBytes, guestmem::Access::kReadWrite);
  }
  Delivery place(std::size_t target, std::uint32_t bytes, verbs::Payload& payload) {
    if (verdict % 3 == 1 || bytes > kTargetBytes) return Delivery::kDelivered;
    const bool was_back = payload.is_back();
    const verbs::Placed placed = payload.place(memory_of(target, bytes));
    PVRDMA_CHECK(!was_back || placed != verbs::Placed::kLater, "it is fetched once");
    if (placed == verbs::Placed::kLater) {
      ++given_[target];
    } else if (given_[target] == 0) {
      remember(target);
    }
    return verdict % 3 == 2 ? Delivery::kForeignSource : Delivery::kDelivered;
  }
  // All loans and fetches of the connection are over.
  void end(std::size_t target) {
    settle(target);
    lent_answers_[target] = 0;
  }
  // No fetch writes to the target any more: remembers its content.
  void settle(std::size_t target) {
    if (std::exchange(given_[target], 0) != 0) remember(target);
  }
  void remember(std::size_t target) {
    std::memcpy(seen_.data() + target * kTargetBytes, ram_.at(target * kTargetBytes), kTargetBytes);
  }

  guestmem::TestRam ram_{kRamBytes};
  guestmem::AddressSpace memory_;
  std::shared_ptr<GuestMemory> registry_;
  std::deque<std::pair<std::function<void()>, std::function<void()>>> jobs_;
  bool works_ = false;
  decltype(jobs_) finished_;  // their results are kept until the end, as is what was buried
  std::vector<std::unique_ptr<Buried>> buried_;
  std::vector<std::byte> seen_ = std::vector<std::byte>(kRamBytes);
  std::array<int, kTargets> given_{};         // how many fetches may still write there
  std::array<int, kTargets> lent_answers_{};  // the rkey is the target's number
  alignas(verbs::Engine) std::array<std::byte, sizeof(verbs::Engine)> engine_{};
};

// The peer: its end of a pipe, a region that may be read, and its bulk QPs.
class LyingPeer : private CqUser {
 public:
  LyingPeer(std::shared_ptr<Nic> nic, std::unique_ptr<PipeEnd> end)
      : nic_(std::move(nic)),
        end_(std::move(end)),
        domain_(nic_->make_domain().value()),
        region_(nic_->register_memory(memory_, RemoteAccess::kRead, domain_.get()).value()),
        cq_(nic_->make_cq(kE810.cqes, *this).value()) {}
  ~LyingPeer() override { qps_.clear(); }
  LyingPeer(const LyingPeer&) = delete;
  LyingPeer& operator=(const LyingPeer&) = delete;

  // Makes the pipe come up.
  void greet() {
    say({}, {});
    --next_;
  }
  void say_stopped(std::uint8_t id) {
    BulkRoom room;
    say(encode_bulk(next_, BulkStopped{id}, room), {});
    qps_.erase(id);
  }
  // Handles what has arrived.
  void listen() {
    std::array<NicCompletion, 32> found;
    while (const std::size_t count = end_->cq().poll(found).value_or(0)) {
      for (const NicCompletion& completion : std::span(found).first(count)) {
        if (!completion.is_receive || !completion.trouble.empty()) continue;
        const auto slot = static_cast<std::uint32_t>(completion.id);
        NetworkReader head(end_->receive_slot(slot));
        told_ = head.take<std::uint32_t>();
        read(end_->receive_slot(slot).first(completion.bytes).subspan(kPipeHeadBytes));
        ++granted_;
        PVRDMA_CHECK(end_->post_receive(slot), "posted");
      }
    }
  }
  // Sending needs a free slot at the other end.
  bool may_say() const { return sent_ - told_ + 2 < end_->peer_slots(); }

 protected:
  virtual void on_bulk_frame(const BulkFrame& frame) = 0;

  // `bytes` bytes in `count` runs. `lie` may make the last run wrong.
  Runs runs_of(std::uint32_t bytes, std::size_t count, std::uint8_t lie) {
    std::ranges::fill(memory_, static_cast<std::byte>(number_));  // a late READ brings an old value
    Runs runs;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    for (std::size_t i = 0, left = bytes; left != 0; ++i) {
      const std::size_t some = i + 1 == count ? left : std::min(left, bytes / count + 1);
      Run run{begin + i * 64, static_cast<std::uint32_t>(some), region_->rkey()};
      if (i + 1 == count && lie % 4 == 1) ++run.rkey;
      if (i + 1 == count && lie % 4 == 2) run.address = 4096;
      if (i + 1 == count && lie % 4 == 3) run.address = begin + memory_.size() - 1;
      PVRDMA_CHECK(runs.append(run), "there is room for it");
      left -= some;
    }
    return runs;
  }
  void say(std::span<const std::byte> head, std::span<const std::byte> payload) {
    const auto slot = static_cast<std::uint32_t>(sent_ % end_->slots());
    NetworkWriter writer(end_->send_slot(slot));
    writer.put(granted_);
    writer.put(std::uint32_t{0});
    writer.put_bytes(head.data(), head.size());
    writer.put_bytes(payload.data(), payload.size());
    const std::size_t bytes = kPipeHeadBytes + head.size() + payload.size();
    PVRDMA_CHECK(end_->post_send(slot, static_cast<std::uint32_t>(bytes), sent_++, false), "posted");
    ++next_;
  }
  // Makes a QP for that id. 0: the limit of QPs is reached.
  std::uint32_t make_qp(std::uint8_t id) {
    auto qp = nic_->make_qp(*cq_, {.sends = 1, .receives = 1, .reads = 8}, domain_.get());
    if (!qp || qps_.size() > kQpsMax) return 0;
    const std::uint32_t qpn = (*qp)->qpn();
    qps_.insert_or_assign(id, *std::move(qp));
    return qpn;
  }
  void connect(std::uint32_t id, const BulkEndpoint& there) {
    const auto qp = qps_.find(static_cast<std::uint8_t>(id));
    if (qp == qps_.end()) return;
    QpConnection connection = end_->connection();
    connection.peer_qpn = there.qpn;
    connection.send_psn = kPsn;
    connection.receive_psn = there.psn;
    connection.reads = 8;
    PVRDMA_CHECK(qp->second->connect(connection).has_value(), "connected");
  }

  void answer(std::uint32_t id, std::uint32_t qpn) {
    const BulkEndpoint end = qpn == 0 ? BulkEndpoint{} : BulkEndpoint{.qpn = qpn, .psn = kPsn, .reads = 8};
    BulkRoom room;
    say(encode_bulk(next_, BulkAnswer{.id = id, .end = end}, room), {});
  }
  void accept(const BulkOffer& offer) {
    const std::uint32_t qpn = make_qp(static_cast<std::uint8_t>(offer.id));
    answer(offer.id, qpn);
    if (qpn != 0) connect(offer.id, offer.end);
  }

  static constexpr std::uint32_t kPsn = 9;

  std::array<std::byte, 2 * kTargetBytes> memory_{};
  std::uint32_t number_ = 0;
  std::uint64_t next_ = 0;

 private:
  static constexpr std::size_t kQpsMax = 200;

  void read(std::span<const std::byte> frames) {
    while (!frames.empty()) {
      if (!is_bulk_frame(frames)) {
        wire::Frame frame;
        const wire::Decoded decoded = wire::decode(frames, frame);
        PVRDMA_CHECK(decoded.state == wire::Decoded::State::kComplete, "a pipe says what can be read");
        frames = frames.subspan(decoded.head_bytes + decoded.payload_bytes);
        continue;
      }
      BulkFrame frame;
      const BulkDecoded decoded = decode_bulk(frames, frame);
      PVRDMA_CHECK(decoded.bytes != 0, "a pipe says what can be read");
      on_bulk_frame(frame);
      frames = frames.subspan(decoded.bytes);
    }
  }
  void on_completions() override {}

  const std::shared_ptr<Nic> nic_;
  const std::unique_ptr<PipeEnd> end_;
  const std::unique_ptr<NicDomain> domain_;
  const std::unique_ptr<NicMemoryRegion> region_;
  const std::unique_ptr<NicCompletionQueue> cq_;
  std::map<std::uint8_t, std::unique_ptr<NicQueuePair>> qps_;
  std::uint32_t granted_ = 0;
  std::uint32_t told_ = 0;
  std::uint64_t sent_ = 0;
};

// Two hosts with a pipe between them. `Peer` plays one of them.
template <typename Peer>
class BulkFuzz {
 public:
  // An older peer does not know lent answers.
  explicit BulkFuzz(Pipe::Role role, bool is_peer_old = false) {
    network_.set_delay(std::chrono::microseconds(50));
    network_.set_on_shard([this] { return in_turn_ && !vm_->works(); });
    network_.add("here", kE810, {gid(1)});
    network_.add("there", kE810, {gid(2)});
    const auto nic = network_.open("here", nobody_).value();
    const auto peer_nic = network_.open("there", nobody_).value();
    vm_ = std::make_unique<OneVm>(nic);
    HcaTimes times;
    times.bulk_pause_first = std::chrono::microseconds(100);
    shared_ = std::make_unique<HcaShared>(*vm_, *vm_, clock_, times);
    shared_->make_room(4);
    auto here = PipeEnd::make(nic, 1024).value();
    auto there = PipeEnd::make(peer_nic, 1024).value();
    PipeEndpoint peer = there->here();
    peer.lends_answers = !is_peer_old;
    PVRDMA_CHECK(here->connect(gid(1), gid(2), peer) && there->connect(gid(2), gid(1), here->here()),
                 "connected");
    pipe_ = std::make_unique<Pipe>(*shared_, role, HostId(2), here, clock_.now());
    peer_ = std::make_unique<Peer>(peer_nic, std::move(there));
    peer_->greet();
    turn();
    pass(100);
  }
  ~BulkFuzz() {
    PVRDMA_CHECK(network_.crimes() == 0, "the device was told nothing that must not be");
    pipe_->release().reset();
    vm_->expect_all_returned();
  }
  BulkFuzz(const BulkFuzz&) = delete;
  BulkFuzz& operator=(const BulkFuzz&) = delete;

  OneVm& vm() { return *vm_; }
  Pipe& pipe() { return *pipe_; }
  Peer& peer() { return *peer_; }
  Instant now() const { return clock_.now(); }

  void turn() {
    in_turn_ = true;
    for (bool works = true; works;) {
      works = network_.run(clock_.now());
      if (std::erase(shared_->active, pipe_.get()) != 0) works = pipe_->run(clock_.now()) || works;
      pipe_->turn(clock_.now());
      shared_->unflushed.clear();
      pipe_->flush(clock_.now());
      works = vm_->work_on() || works;
      vm_->check();
    }
    in_turn_ = false;
    peer_->listen();
    PVRDMA_CHECK(!pipe_->broken(), "the pipe stands");
  }
  void pass(unsigned microseconds) {
    for (unsigned left = microseconds; left != 0;) {
      const unsigned some = std::min(left, 25U);  // less than a packet takes
      clock_.advance(std::chrono::microseconds(some));
      left -= some;
      turn();
    }
  }

 private:
  test::ManualClock clock_;
  FakeNetwork network_{1, clock_};
  bool in_turn_ = false;
  Nobody nobody_;
  std::unique_ptr<OneVm> vm_;
  std::unique_ptr<HcaShared> shared_;
  std::unique_ptr<Pipe> pipe_;
  std::unique_ptr<Peer> peer_;
};

}  // namespace pvrdma::transport::hca
