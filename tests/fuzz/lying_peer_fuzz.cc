// Fuzzes two engines on two hosts over the frames of the TCP transport, while one of the hosts lies.
//
// Host 1 has the victim, host 2 the peer. Each is an adapter with the user-space driver, and one RC
// connection joins them. A Liar changes what host 2 sends, requests and responses alike. An honest pair of
// adapters on the same two hosts has lanes of its own. Input: the first number@0:1, length@1:2 of the liar's
// script, the script, then steps, see Step. The fuzzer checks, whatever the liar sends:
//  * only those bytes of the victim change that it has granted or to which its own requests and receives
//    point;
//  * each work request completes at most once, and in order, at both ends;
//  * the honest pair's requests are executed exactly once and complete successfully.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "device/capabilities.h"
#include "fuzz/lanes.h"
#include "fuzz/liar.h"
#include "support/fuzz_input.h"
#include "support/machines.h"
#include "support/must.h"

namespace pvrdma::fuzz {
namespace {

using test::FuzzInput;
using test::must;
using test::RcEndpoint;

enum class Step : std::uint8_t {
  kVictimPosts,    // kind@0:1, bytes@1:2
  kPeerPosts,      // kind@0:1, bytes@1:2
  kVictimReceive,  // posts a receive
  kPeerReceive,
  kMove,    // rounds@0:1: moves everything in flight
  kTime,    // milliseconds@0:2
  kInvent,  // direction@0:1: the liar invents a frame
  kCut,     // which@0:1
  kCount
};

constexpr transport::SegmentId kSegment{.dvs = 7, .vlan = 11};
constexpr std::uint32_t kVictim = 0, kPeer = 1, kHonestA = 2, kHonestB = 3;
constexpr int kStepsMax = 64;
constexpr int kRoundsMax = 400;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kGrantedBytes = 32 * 1024;
constexpr std::size_t kSlots = 16;
constexpr std::size_t kSlotBytes = 1024;
constexpr std::size_t kGapBytes = 64;  // at the end of each slot
constexpr std::byte kUntouched{0xc3};
// The first message numbers. Numbers have 24 bits, and comparisons are right over half of that range.
constexpr std::array<std::uint32_t, 8> kStarts{0,         1,         0x7f'ffff, 0x80'0000,
                                               0xff'fff0, 0xff'fffe, 0xff'ffff, 0x55'5555};

verbs::Gid verbs_gid(std::uint32_t index) {
  return {test::gid_of(index).raw};
}

test::MachineOptions machine_options() {
  test::MachineOptions options;
  options.adapter_count = 4;
  options.limits = device::limits_of(options.hardware_version, options.profile);
  options.limits->max_qp = options.limits->max_cq = options.limits->max_mr = options.limits->max_pd = 64;
  options.driver.ram.size_bytes = 1u << 20;
  return options;
}

// The work requests of one queue. Each must complete once, in order.
class Outstanding {
 public:
  std::uint64_t post() { return posted_.emplace_back(++last_); }
  void take_back() { posted_.pop_back(); }
  void complete(const driver::WorkCompletion& done) {
    PVRDMA_CHECK(!posted_.empty() && done.wr_id == posted_.front(),
                 "a work request completes once, and in order");
    posted_.pop_front();
  }
  void clear() { posted_.clear(); }

 private:
  std::deque<std::uint64_t> posted_;
  std::uint64_t last_ = 0;
};

// One end of the connection that the liar manipulates.
class End {
 public:
  explicit End(driver::Device& device)
      : device_(device),
        pd_(must(driver::ProtectionDomain::create(device.kernel()))),
        send_cq_(must(driver::CompletionQueue::create(device.kernel(), 64))),
        recv_cq_(must(driver::CompletionQueue::create(device.kernel(), 64))),
        qp_(must(driver::QueuePair::create(*pd_, {.send_cq = send_cq_.get(),
                                                  .recv_cq = recv_cq_.get(),
                                                  .max_send_wr = kSlots,
                                                  .max_recv_wr = kSlots}))),
        granted_(must(device.ram().allocate(kGrantedBytes + 2 * kPage))),
        granted_region_(
            must(driver::MemoryRegion::of_buffer(*pd_, *granted_, test::kFullAccess, kPage, kGrantedBytes))),
        slots_(must(device.ram().allocate(2 * kSlots * kSlotBytes))),
        slots_region_(must(driver::MemoryRegion::of_buffer(*pd_, *slots_, abi::kAccessLocalWrite))) {
    std::memset(granted_->data(), static_cast<int>(kUntouched), granted_->size_bytes());
    std::memset(slots_->data(), static_cast<int>(kUntouched), slots_->size_bytes());
  }

  driver::QueuePair& qp() { return *qp_; }
  driver::ProtectionDomain& pd() { return *pd_; }
  driver::Remote granted() const { return {granted_region_->start(), granted_region_->rkey()}; }
  std::uint64_t slots_address() const { return slots_region_->start(); }
  std::uint32_t slots_key() const { return slots_region_->rkey(); }

  void reset() {
    must(qp_->to_reset());
    sends_.clear();
    receives_.clear();
    while (device_.poll_async_event()) {
    }
  }
  void connect(const abi::Gid& gid, std::uint32_t qpn, std::uint32_t first_psn) {
    must(qp_->to_init({.access = test::kFullAccess}));
    must(qp_->to_rtr({.dest_qpn = qpn, .route = {.dgid = gid}, .rq_psn = first_psn, .min_rnr_timer = 31}));
    must(qp_->to_rts(
        driver::RtsAttributes{.sq_psn = first_psn, .timeout = 14, .retry_cnt = 2, .rnr_retry = 3}));
  }

  void post(FuzzInput& input, const End& peer) {
    const std::uint8_t kind = input.byte() % 5;
    const bool brings_back = kind == 2 || kind == 4;
    const std::size_t slot = next_send_++ % kSlots * kSlotBytes;
    const std::uint32_t room = kSlotBytes - kGapBytes;
    const std::uint32_t wanted = 1 + input.u16();
    // Payload that it sends may come from the granted buffer, too. Results go into the slot.
    const driver::Sge sge = kind == 4     ? slots_region_->sge(slot, 8)
                            : brings_back ? slots_region_->sge(slot, 1 + wanted % room)
                            : kind == 0   ? slots_region_->sge(slot, 1 + wanted % room)
                                          : granted_region_->sge(0, 1 + wanted % kGrantedBytes);
    const std::span<const driver::Sge> sges(&sge, 1);
    const driver::Remote remote = peer.granted();
    const std::uint64_t id = sends_.post();
    const auto request = [&]() -> driver::SendRequest {
      switch (kind) {
        case 0:
          return driver::wr::send(id, sges);
        case 1:
          return driver::wr::write(id, sges, remote);
        case 2:
          return driver::wr::read(id, sges, remote);
        case 3:
          return driver::wr::write_imm(id, sges, remote, 9);
        default:
          return driver::wr::fetch_add(id, sges, remote, 1);
      }
    }();
    if (qp_->post_send(request).count == 0) sends_.take_back();
  }
  void receive() {
    const std::size_t slot = (kSlots + next_receive_++ % kSlots) * kSlotBytes;
    const driver::Sge sge = slots_region_->sge(slot, kSlotBytes - kGapBytes);
    if (qp_->post_recv(driver::ReceiveRequest{receives_.post(), {&sge, 1}}).count == 0) receives_.take_back();
  }
  void poll() {
    std::array<driver::WorkCompletion, 16> done;
    for (std::size_t n; (n = send_cq_->poll(done)) != 0;) {
      for (std::size_t i = 0; i < n; ++i) sends_.complete(done[i]);
    }
    for (std::size_t n; (n = recv_cq_->poll(done)) != 0;) {
      for (std::size_t i = 0; i < n; ++i) {
        receives_.complete(done[i]);
        PVRDMA_CHECK(!done[i].ok() || done[i].byte_len <= kGrantedBytes, "no longer than what was granted");
      }
    }
    PVRDMA_CHECK(send_cq_->fault() == driver::CompletionQueue::Fault::kNone &&
                     recv_cq_->fault() == driver::CompletionQueue::Fault::kNone,
                 "CQs are in order");
  }
  void check_untouched() const {
    const auto untouched = [](const std::byte* from, std::size_t bytes) {
      for (std::size_t i = 0; i < bytes; ++i) {
        if (from[i] != kUntouched) return false;
      }
      return true;
    };
    PVRDMA_CHECK(
        untouched(granted_->data(), kPage) && untouched(granted_->data() + kPage + kGrantedBytes, kPage),
        "what is before and behind a granted region is as it was");
    for (std::size_t slot = 1; slot <= 2 * kSlots; ++slot) {
      PVRDMA_CHECK(untouched(slots_->data() + slot * kSlotBytes - kGapBytes, kGapBytes),
                   "what is behind a request's memory is as it was");
    }
  }

 private:
  driver::Device& device_;
  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::CompletionQueue> send_cq_;
  std::unique_ptr<driver::CompletionQueue> recv_cq_;
  std::unique_ptr<driver::QueuePair> qp_;
  std::unique_ptr<driver::Buffer> granted_;  // a page, the granted part, a page
  std::unique_ptr<driver::MemoryRegion> granted_region_;
  std::unique_ptr<driver::Buffer> slots_;  // slots of sends, then of receives
  std::unique_ptr<driver::MemoryRegion> slots_region_;
  Outstanding sends_;
  Outstanding receives_;
  std::size_t next_send_ = 0;
  std::size_t next_receive_ = 0;
};

// The victim's memory that it did not grant: regions that look like granted ones, and all the rest of its
// RAM.
class Secrets {
 public:
  Secrets(driver::Device& device, driver::ProtectionDomain& pd)
      : other_pd_(must(driver::ProtectionDomain::create(device.kernel()))) {
    add(device, kPage);
    regions_.push_back(must(driver::MemoryRegion::of_buffer(pd, *buffers_.back(), abi::kAccessRemoteRead)));
    add(device, kPage);
    regions_.push_back(must(driver::MemoryRegion::of_buffer(pd, *buffers_.back(), abi::kAccessLocalWrite)));
    add(device, kPage);
    regions_.push_back(
        must(driver::MemoryRegion::of_buffer(*other_pd_, *buffers_.back(), test::kFullAccess)));
    add(device, device.ram().free_pages() * kPage);
    for (const auto& buffer : buffers_) {
      std::memset(buffer->data(), static_cast<int>(kUntouched), buffer->size_bytes());
      as_it_was_.emplace_back(buffer->data(), buffer->data() + buffer->size_bytes());
    }
  }
  void name(std::vector<Victim::Place>& places) const {
    for (const auto& region : regions_) places.push_back({region->start(), region->rkey()});
  }
  void check() const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      PVRDMA_CHECK(std::memcmp(buffers_[i]->data(), as_it_was_[i].data(), as_it_was_[i].size()) == 0,
                   "what was not granted is as it was");
    }
  }

 private:
  void add(driver::Device& device, std::size_t bytes) {
    buffers_.push_back(must(device.ram().allocate(bytes)));
  }
  std::unique_ptr<driver::ProtectionDomain> other_pd_;
  std::vector<std::unique_ptr<driver::Buffer>> buffers_;
  std::vector<std::unique_ptr<driver::MemoryRegion>> regions_;
  std::vector<std::vector<std::byte>> as_it_was_;
};

class World {
 public:
  World()
      : machines_(machine_options()),
        loop_(must(shard::Loop::create({}, machines_.clock()))),
        one_(HostId(1), "esx1", *loop_, machines_.clock()),
        two_(HostId(2), "esx2", *loop_, machines_.clock()),
        from_one_(one_),
        from_two_(two_),
        requests_(lies_, Liar::Says::kRequests),
        responses_(lies_, Liar::Says::kResponses),
        lied_to_(one_, two_, truth_, responses_),
        lying_(two_, one_, requests_, truth_),
        honest_to_(one_, two_, truth_, truth_),
        honest_from_(two_, one_, truth_, truth_) {
    from_one_.connect(verbs_gid(kVictim), {&lied_to_, &lying_});
    from_two_.connect(verbs_gid(kPeer), {&lying_, &lied_to_});
    from_one_.connect(verbs_gid(kHonestA), {&honest_to_, &honest_from_});
    from_two_.connect(verbs_gid(kHonestB), {&honest_from_, &honest_to_});
    one_.fabric.use(from_one_);
    two_.fabric.use(from_two_);
    for (const std::uint32_t index : {kVictim, kHonestA})
      machines_.place(index, one_.fabric.segment(kSegment));
    for (const std::uint32_t index : {kPeer, kHonestB}) machines_.place(index, two_.fabric.segment(kSegment));
    for (std::uint32_t index = 0; index < machines_.count(); ++index) machines_.device(index);
    tell(one_, two_, {kPeer, kHonestB});
    tell(two_, one_, {kVictim, kHonestA});
    move(8);
    victim_.emplace(machines_.device(kVictim));
    peer_.emplace(machines_.device(kPeer));
    honest_a_.emplace(machines_.device(kHonestA), test::gid_of(kHonestA));
    honest_b_.emplace(machines_.device(kHonestB), test::gid_of(kHonestB));
    must(test::connect(*honest_a_, *honest_b_));
    secrets_.emplace(machines_.device(kVictim), victim_->pd());
    Victim& known = lies_.victim;
    known.liar = {verbs_gid(kPeer), verbs::Qpn(peer_->qp().qpn())};
    known.victim = {verbs_gid(kVictim), verbs::Qpn(victim_->qp().qpn())};
    known.segment = kSegment;
    known.places = {{victim_->granted().addr, victim_->granted().rkey},
                    {victim_->granted().addr + kGrantedBytes, victim_->granted().rkey},
                    {victim_->slots_address(), victim_->slots_key()}};
    secrets_->name(known.places);
  }
  ~World() {
    // First the objects that use devices, then the adapters, because the fabrics have their paths and ports.
    secrets_.reset();
    honest_b_.reset();
    honest_a_.reset();
    peer_.reset();
    victim_.reset();
    for (std::uint32_t index = 0; index < machines_.count(); ++index) machines_.remove(index);
  }

  void run(FuzzInput input) {
    begin(kStarts[input.byte() % kStarts.size()]);
    const std::size_t length = input.u16();
    lies_.script = FuzzInput(input.take_bytes(length));
    for (int i = 0; i < kStepsMax && !input.empty(); ++i) step(input);
    move(8);
    victim_->poll();
    peer_->poll();
    lies_.script = FuzzInput(nullptr, 0);
    victim_->check_untouched();
    peer_->check_untouched();
    secrets_->check();
    check_honest();
  }

 private:
  static void tell(LaneHost& host, const LaneHost& other, std::array<std::uint32_t, 2> adapters) {
    fabric::View view;
    view.hosts.push_back(
        {.id = other.id, .name = "other", .path = transport::PathKind::kTcp, .reason = "test"});
    for (const std::uint32_t index : adapters)
      view.gids.push_back({.segment = kSegment, .gid = verbs_gid(index), .host = other.id});
    host.fabric.set_view(std::move(view));
  }

  void begin(std::uint32_t first_psn) {
    lied_to_.cut();
    lying_.cut();
    move(6);
    victim_->reset();
    peer_->reset();
    victim_->connect(test::gid_of(kPeer), peer_->qp().qpn(), first_psn);
    peer_->connect(test::gid_of(kVictim), victim_->qp().qpn(), first_psn);
    lies_.victim.next_number = first_psn;
  }

  void step(FuzzInput& input) {
    switch (static_cast<Step>(input.byte() % static_cast<std::uint8_t>(Step::kCount))) {
      case Step::kVictimPosts:
        return victim_->post(input, *peer_);
      case Step::kPeerPosts:
        return peer_->post(input, *victim_);
      case Step::kVictimReceive:
        return victim_->receive();
      case Step::kPeerReceive:
        return peer_->receive();
      case Step::kMove:
        move(1 + input.byte() % 8);
        victim_->poll();
        peer_->poll();
        return;
      case Step::kTime:
        pass(std::chrono::milliseconds(input.u16() % 4096));
        return;
      case Step::kInvent:
        (input.byte() % 2 == 0 ? requests_ : responses_).invent();
        return;
      case Step::kCut:
        (input.byte() % 2 == 0 ? lying_ : lied_to_).cut();
        return;
      case Step::kCount:
        return;
    }
  }

  // Runs `rounds` rounds in which engines work and bytes move. False: nothing moves any more.
  bool move(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      machines_.run();
      from_one_.flush(now());
      from_two_.flush(now());
      loop_->turn(Duration(0));
      bool moved = false;
      for (FuzzLane* lane : {&lied_to_, &lying_, &honest_to_, &honest_from_}) moved |= lane->pump(now());
      if (!moved) return false;
    }
    return true;
  }
  // Lets time pass from deadline to deadline, for a bounded number of them.
  void pass(Duration time) {
    const Instant end = now() + time;
    for (int i = 0; i < 16 && machines_.next_deadline() <= end; ++i) {
      machines_.advance(std::max(Duration(0), machines_.next_deadline() - now()));
      move(4);
    }
    machines_.advance(std::max(Duration(0), end - now()));
    move(4);
  }

  void check_honest() {
    const std::uint64_t id = ++honest_id_;
    const auto seed = static_cast<std::uint8_t>(id);
    honest_a_->fill(0, 3000, seed);
    PVRDMA_CHECK(honest_b_->recv(id, 8192, 4096).ok(), "the honest one receives");
    const driver::Sge sge = honest_a_->sge(0, 3000);
    const std::array<driver::SendRequest, 3> requests{
        driver::wr::write(id, {&sge, 1}, honest_b_->remote(0)),
        driver::wr::fetch_add(id, {&counter(), 1}, honest_b_->remote(16384), 1),
        driver::wr::send(id, {&sge, 1})};
    PVRDMA_CHECK(honest_a_->qp->post_send(requests).count == requests.size(), "the honest one sends");
    std::size_t sent = 0;
    std::size_t received = 0;
    for (int round = 0; round < kRoundsMax && (sent < requests.size() || received < 1); ++round) {
      if (!move(4)) pass(std::chrono::milliseconds(50));
      std::array<driver::WorkCompletion, 4> done;
      for (std::size_t n = honest_a_->send_cq->poll(done); n != 0; --n, ++sent)
        PVRDMA_CHECK(done[n - 1].ok() && done[n - 1].wr_id == id, "the honest ones' requests complete well");
      for (std::size_t n = honest_b_->recv_cq->poll(done); n != 0; --n, ++received)
        PVRDMA_CHECK(done[n - 1].ok() && done[n - 1].wr_id == id && done[n - 1].byte_len == 3000,
                     "the honest ones' messages arrive");
    }
    PVRDMA_CHECK(sent == requests.size() && received == 1, "the honest ones are served");
    PVRDMA_CHECK(honest_b_->holds(0, 3000, seed) && honest_b_->holds(8192, 3000, seed), "bytes arrive");
    std::uint64_t count = 0;
    std::memcpy(&count, honest_b_->bytes(16384), sizeof count);
    PVRDMA_CHECK(count == id, "each fetch-and-add was executed once");
  }
  const driver::Sge& counter() {
    counter_ = honest_a_->sge(16384, 8);
    return counter_;
  }

  Instant now() const { return machines_.now(); }

  test::Machines machines_;
  std::unique_ptr<shard::Loop> loop_;
  LaneHost one_;
  LaneHost two_;
  LaneTransport from_one_;
  LaneTransport from_two_;
  Lies lies_;
  Between truth_;
  Liar requests_;
  Liar responses_;
  FuzzLane lied_to_;  // the victim's host dials; the liar changes the responses
  FuzzLane lying_;    // the liar's host dials; the liar changes the requests
  FuzzLane honest_to_;
  FuzzLane honest_from_;
  std::optional<End> victim_;
  std::optional<End> peer_;
  std::optional<RcEndpoint> honest_a_;
  std::optional<RcEndpoint> honest_b_;
  std::optional<Secrets> secrets_;
  std::uint64_t honest_id_ = 0;
  driver::Sge counter_{};
};

}  // namespace
}  // namespace pvrdma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static pvrdma::fuzz::World world;
  world.run(pvrdma::test::FuzzInput(data, size));
  return 0;
}
