// Fuzzes an acceptor's bulk QPs against a peer whose frames are well formed and whose words are not: offers
// of QPs that are there or are not, loans with any keys and addresses, stops out of turn; while the VM's own
// side stops, refuses, or gives memory up. Input: steps, see Step; what is missing is 0.
//
// What must hold, whatever is said:
//  * no byte of the VM changes but those that its engine gave for a payload, and none of those after a stop;
//  * the device is never told to do what it must not;
//  * the pipe stands: a wrong key costs the QPs of two VMs, and nobody else.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/network_order.h"
#include "guestmem/test_ram.h"
#include "support/fuzz_input.h"
#include "transport/hca/context.h"
#include "transport/hca/fake_nic.h"
#include "transport/hca/pipe.h"
#include "verbs/engine.h"

namespace pvrdma::transport::hca {
namespace {

enum class Step : std::uint8_t {
  kOffer,       // id@0:1, pair@1:1, kind@2:1
  kLent,        // pair@0:1, connection@1:1, bytes@2:2, runs@4:1, key@5:1
  kSmall,       // pair@0:1, connection@1:1, bytes@2:1
  kStopped,     // id@0:1
  kLocalStop,   // pair@0:1
  kMemoryGoes,  // and comes again
  kVerdict,     // what the engine does with payload@0:1
  kTime,        // microseconds@0:2, in small steps
  kCount
};

constexpr SegmentId kSegment{.dvs = 7, .vlan = 11};
constexpr std::size_t kPairs = 4;        // each of another VM of the peer's and the one here
constexpr std::size_t kConnections = 2;  // of each
constexpr std::size_t kTargets = kPairs * kConnections;
constexpr std::size_t kTargetBytes = 16 * 1024;
constexpr std::size_t kRamBytes = (kTargets + 1) * kTargetBytes;  // the last is nobody's
constexpr std::uint8_t kFirstPeer = 100;
constexpr std::uint32_t kFirstQpn = 2;
constexpr int kStepsMax = 100;

verbs::Gid gid(std::uint8_t last) {
  verbs::Gid made{{0xfe, 0x80}};
  made.bytes[15] = last;
  return made;
}

class StandingClock final : public Clock {
 public:
  Instant now() const override { return time; }
  Instant time{std::chrono::seconds(100)};
};

struct Nobody final : NicUser {
  void on_news(News) override {}
};

// The Hca and the fabric of the one VM here. Its engine is nobody that could be called: it is told apart by
// its address alone.
class OneVm final : public Parts, public Inbound {
 public:
  explicit OneVm(std::shared_ptr<Nic> nic) {
    ram_.map_into(memory_, 0);
    registry_ = std::make_shared<GuestMemory>(std::move(nic), memory_, *this);
  }
  ~OneVm() override { registry_.reset(); }

  verbs::Engine& engine() { return *reinterpret_cast<verbs::Engine*>(&engine_); }
  bool work_on() {
    if (jobs_.empty()) return false;
    const auto [job, then] = std::move(jobs_.front());
    jobs_.pop_front();
    job();
    then();
    return true;
  }
  void take_memory_away(Pipe& pipe) {
    pipe.stop_all(engine());
    for (std::size_t i = 0; i < kTargets; ++i) settle(i);
    registry_->drop({base(), kRamBytes});
    memory_.unmap_all();
    ram_.map_into(memory_, 0);
  }
  void stop(Pipe& pipe, std::size_t pair) {
    for (std::uint32_t i = 0; i < kConnections; ++i) {
      const verbs::Qpn qpn{kFirstQpn + i};
      pipe.stop(kSegment,
                {.local = {gid(1), qpn}, .remote = {gid(static_cast<std::uint8_t>(kFirstPeer + pair)), qpn}});
      settle(pair * kConnections + i);
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

  std::uint8_t verdict = 0;

  void work(std::function<void()> job, std::function<void()> then) override {
    jobs_.emplace_back(std::move(job), std::move(then));
  }
  void bury(std::unique_ptr<Buried> dead) override { dead.reset(); }
  std::shared_ptr<GuestMemory> memory_of(const verbs::Engine&) override { return registry_; }
  void give_up_device() override { PVRDMA_CHECK(false, "the device does what it must"); }

  Delivery on_request(HostId, PathKind, SegmentId segment, const verbs::Request& request,
                      verbs::Payload& payload, Instant) override {
    PVRDMA_CHECK(segment == kSegment, "a message is of a segment");
    PVRDMA_CHECK(payload.bytes() == request.bytes, "the bytes are those of the message");
    const std::size_t pair = std::size_t{request.from.gid.bytes[15]} - kFirstPeer;
    const std::size_t target = pair * kConnections + request.to.qpn.value % kConnections;
    PVRDMA_CHECK(pair < kPairs, "it is of somebody");
    PVRDMA_CHECK(!payload.is_back() || given_[target] != 0, "what comes back was fetched");
    if (!payload.is_ahead()) {  // nothing else is on its way for the connection, or this is the oldest of it
      if (payload.is_back() && given_[target] != 1) {
        --given_[target];
      } else {
        settle(target);
      }
    }
    if (verdict % 3 == 1 || request.bytes > kTargetBytes) return Delivery::kDelivered;
    guestmem::SpanList spans;  // the later one first
    std::byte* const begin = base() + target * kTargetBytes;
    const std::size_t half = request.bytes / 2;
    PVRDMA_CHECK(spans.append(begin + half, request.bytes - half) && spans.append(begin, half), "it fits");
    const bool was_back = payload.is_back();
    const verbs::Placed placed = payload.place(spans);
    PVRDMA_CHECK(!was_back || placed != verbs::Placed::kLater, "it is fetched once");
    if (placed == verbs::Placed::kLater) {
      ++given_[target];
    } else if (given_[target] == 0) {
      remember(target);
    }
    return verdict % 3 == 2 ? Delivery::kForeignSource : Delivery::kDelivered;
  }
  Delivery on_response(HostId, SegmentId, const verbs::Response&, verbs::Payload&, Instant) override {
    return Delivery::kDelivered;
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

 private:
  std::byte* base() const {
    return memory_.translate(guestmem::GuestPhys(0), kRamBytes, guestmem::Access::kReadWrite);
  }
  // Whatever is there now stays.
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
  std::vector<std::byte> seen_ = std::vector<std::byte>(kRamBytes);
  std::array<int, kTargets> given_{};  // how often the path may write there
  alignas(verbs::Engine) std::array<std::byte, sizeof(verbs::Engine)> engine_{};
};

// The other end: a pipe's, a region that may be read, and QPs that it connects when their offer is answered.
class Peer final : private CqUser {
 public:
  Peer(std::shared_ptr<Nic> nic, std::unique_ptr<PipeEnd> end)
      : nic_(std::move(nic)),
        end_(std::move(end)),
        domain_(nic_->make_domain().value()),
        region_(nic_->register_memory(memory_, RemoteAccess::kRead, domain_.get()).value()),
        cq_(nic_->make_cq(kE810.cqes, *this).value()) {}
  ~Peer() override { qps_.clear(); }

  void offer(test::FuzzInput& input) {
    const std::uint8_t id = input.byte();
    const std::uint8_t pair = input.byte();
    BulkOffer offer{.id = id, .stripe = {{kSegment, peer_gid(pair), gid(1)}, stripe(pair)}, .end = {}};
    const std::uint8_t kind = input.byte();
    if (kind % 4 == 1) offer.stripe.pair.peer = gid(2);  // nobody's
    offer.end = {.qpn = 5, .psn = 9, .reads = 8};
    if (kind % 4 != 2) {  // 2: there is no such QP
      auto qp = nic_->make_qp(*cq_, {.sends = 1, .receives = 1, .reads = 8}, domain_.get());
      if (!qp || qps_.size() > kQpsMax) return;
      offer.end.qpn = (*qp)->qpn();
      qps_.insert_or_assign(id, *std::move(qp));
    }
    BulkRoom room;
    say(encode_bulk(next_, offer, room), {});
  }
  void lend(test::FuzzInput& input) {
    const verbs::Request request = any_request(input, true);
    std::ranges::fill(memory_, static_cast<std::byte>(number_));  // what comes late is seen to be late
    const std::size_t count = 1 + input.byte() % 8;
    const std::uint8_t lie = input.byte();
    Runs runs;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    for (std::size_t i = 0, left = request.bytes; left != 0; ++i) {
      const std::size_t bytes = i + 1 == count ? left : std::min(left, request.bytes / count + 1);
      Run run{begin + i * 64, static_cast<std::uint32_t>(bytes), region_->rkey()};
      if (i + 1 == count && lie % 4 == 1) ++run.rkey;
      if (i + 1 == count && lie % 4 == 2) run.address = 4096;
      if (i + 1 == count && lie % 4 == 3) run.address = begin + memory_.size() - 1;
      PVRDMA_CHECK(runs.append(run), "there is room for it");
      left -= bytes;
    }
    BulkRoom room;
    say(encode_lent(next_, kSegment, request, runs, room), {});
  }
  void send(test::FuzzInput& input) {
    const verbs::Request request = any_request(input, false);
    tcp::Head head;
    say(tcp::encode(next_, kSegment, request, head), std::span(memory_).first(request.bytes));
  }
  void say_stopped(test::FuzzInput& input) {
    const std::uint8_t id = input.byte();
    BulkRoom room;
    say(encode_bulk(next_, BulkStopped{id}, room), {});
    qps_.erase(id);
  }
  // Takes what came.
  void listen() {
    std::array<WorkCompletion, 32> found;
    while (const std::size_t count = end_->cq().poll(found).value_or(0)) {
      for (const WorkCompletion& completion : std::span(found).first(count)) {
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
  // Frames need a free slot at the other end.
  bool may_say() const { return sent_ - told_ + 2 < end_->peer_slots(); }

 private:
  static constexpr std::size_t kQpsMax = 200;

  // That of the first connections, and then of others.
  static std::uint16_t stripe(std::uint8_t pair) {
    return static_cast<std::uint16_t>((kFirstQpn + pair / kPairs) % kStripes);
  }
  static verbs::Gid peer_gid(std::uint8_t pair) {
    return gid(static_cast<std::uint8_t>(kFirstPeer + pair % kPairs));
  }
  verbs::Request any_request(test::FuzzInput& input, bool is_long) {
    verbs::Request request{.number = verbs::MessageNumber(number_++ & 0xff'ffff)};
    request.op = verbs::RequestOp::kWrite;
    request.from.gid = peer_gid(input.byte());
    request.to.gid = gid(1);
    request.from.qpn = request.to.qpn = verbs::Qpn(kFirstQpn + input.byte() % kConnections);
    constexpr std::uint32_t kMost = kTargetBytes + 100;
    request.bytes = request.message_bytes = 1 + (is_long ? input.u16() % kMost : input.byte());
    return request;
  }
  void say(std::span<const std::byte> head, std::span<const std::byte> payload) {
    PVRDMA_CHECK(!head.empty(), "it can be said");
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
  void read(std::span<const std::byte> frames) {
    while (!frames.empty()) {
      if (!is_bulk_frame(frames)) {
        tcp::Frame frame;
        const tcp::Decoded decoded = tcp::decode(frames, frame);
        PVRDMA_CHECK(decoded.state == tcp::Decoded::State::kComplete, "a pipe says what can be read");
        frames = frames.subspan(decoded.head_bytes + decoded.payload_bytes);
        continue;
      }
      BulkFrame frame;
      const BulkDecoded decoded = decode_bulk(frames, frame);
      PVRDMA_CHECK(decoded.bytes != 0, "a pipe says what can be read");
      if (const auto* answer = std::get_if<BulkAnswer>(&frame.body);
          answer != nullptr && answer->end.qpn != 0)
        connect(*answer);
      frames = frames.subspan(decoded.bytes);
    }
  }
  void connect(const BulkAnswer& answer) {
    const auto qp = qps_.find(static_cast<std::uint8_t>(answer.id));
    if (qp == qps_.end()) return;
    QpConnection connection = end_->connection();
    connection.peer_qpn = answer.end.qpn;
    connection.send_psn = 9;
    connection.receive_psn = answer.end.psn;
    connection.reads = 8;
    PVRDMA_CHECK(qp->second->connect(connection).has_value(), "connected");
  }
  void on_completions() override {}

  std::array<std::byte, 2 * kTargetBytes> memory_{};
  const std::shared_ptr<Nic> nic_;
  const std::unique_ptr<PipeEnd> end_;
  const std::unique_ptr<ProtectionDomain> domain_;
  const std::unique_ptr<MemoryRegion> region_;
  const std::unique_ptr<CompletionQueue> cq_;
  std::map<std::uint8_t, std::unique_ptr<QueuePair>> qps_;
  std::uint32_t number_ = 0;
  std::uint32_t granted_ = 0;
  std::uint32_t told_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t next_ = 0;
};

void run(test::FuzzInput input) {
  StandingClock clock;
  FakeNetwork network(1, clock);
  network.set_delay(std::chrono::microseconds(50));
  Nobody nobody;
  network.add("here", kE810, {gid(1)});
  network.add("there", kE810, {gid(2)});
  const auto nic = network.open("here", nobody).value();
  const auto peer_nic = network.open("there", nobody).value();
  OneVm vm(nic);
  Context context(vm, vm, clock);
  context.make_room(4);
  auto here = PipeEnd::make(nic, 1024).value();
  auto there = PipeEnd::make(peer_nic, 1024).value();
  PVRDMA_CHECK(here->connect(gid(1), gid(2), there->here()) && there->connect(gid(2), gid(1), here->here()),
               "connected");
  Pipe pipe(context, Pipe::Role::kAcceptor, HostId(2), std::move(here), clock.time);
  Peer peer(peer_nic, std::move(there));
  const auto turn = [&] {
    for (bool works = true; works;) {
      works = network.run(clock.time);
      if (std::erase(context.active, &pipe) != 0) works = pipe.run(clock.time) || works;
      pipe.turn(clock.time);
      context.unflushed.clear();
      pipe.flush(clock.time);
      works = vm.work_on() || works;
      vm.check();
    }
    peer.listen();
  };
  turn();
  for (int steps = 0; steps < kStepsMax && !input.empty(); ++steps) {
    const auto step = static_cast<Step>(input.byte() % static_cast<unsigned>(Step::kCount));
    const bool says = step <= Step::kStopped;
    if (says && !peer.may_say()) continue;
    switch (step) {
      case Step::kOffer:
        peer.offer(input);
        break;
      case Step::kLent:
        peer.lend(input);
        break;
      case Step::kSmall:
        peer.send(input);
        break;
      case Step::kStopped:
        peer.say_stopped(input);
        break;
      case Step::kLocalStop:
        vm.stop(pipe, input.byte() % kPairs);
        break;
      case Step::kMemoryGoes:
        vm.take_memory_away(pipe);
        break;
      case Step::kVerdict:
        vm.verdict = input.byte();
        break;
      case Step::kTime:
      case Step::kCount:
        for (unsigned left = input.u16() % 1000; left != 0;) {
          const unsigned some = std::min(left, 25U);  // less than a packet takes
          clock.time = clock.time + std::chrono::microseconds(some);
          left -= some;
          turn();
        }
        break;
    }
    turn();
    PVRDMA_CHECK(!pipe.broken(), "the pipe stands");
  }
  PVRDMA_CHECK(network.crimes() == 0, "the device was told nothing that must not be");
  pipe.release().reset();
}

}  // namespace
}  // namespace pvrdma::transport::hca

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::transport::hca::run({data, size});
  return 0;
}
