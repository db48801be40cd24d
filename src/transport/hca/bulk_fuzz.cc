// Fuzzes an acceptor's bulk QPs. The peer sends well-formed frames with false content: offers of QPs that may
// not exist, loans with arbitrary keys and addresses, stops out of turn, and returns of answers that it never
// had. Meanwhile the local VM stops connections, refuses requests, lends answers and gives up memory. The
// input is a sequence of steps, see Step; missing bytes are 0.
//
// Invariants:
// * The only bytes of the VM that change are those that its engine gave for a payload, and none of them after
//   a stop.
// * A lent answer is returned to the engine exactly once, at the latest at the end.
// * The device is never asked to do anything that it must not do.
// * The pipe stays up: a wrong key ends the QPs of two VMs and affects no other VM.
#include "transport/hca/bulk_fuzz_fixture.h"

namespace pvrdma::transport::hca {
namespace {

enum class Step : std::uint8_t {
  kOffer,       // id@0:1, pair@1:1, kind@2:1
  kLent,        // pair@0:1, connection@1:1, bytes@2:2, runs@4:1, key@5:1
  kSmall,       // pair@0:1, connection@1:1, bytes@2:1
  kStopped,     // id@0:1
  kLocalStop,   // pair@0:1
  kMemoryGoes,  // and is mapped again
  kVerdict,     // what the engine does with payload@0:1
  kTime,        // microseconds@0:2, in small steps
  kReturned,    // id@0:1, count@1:1
  kLendAnswer,  // pair@0:1, connection@1:1, bytes@2:2
  kCount
};

constexpr int kStepsMax = 100;

// The dialling peer: it offers QPs and connects each one whose offer is accepted.
class Peer final : public LyingPeer {
 public:
  using LyingPeer::LyingPeer;

  void offer(test::FuzzInput& input) {
    const std::uint8_t id = input.byte();
    const std::uint8_t pair = input.byte();
    BulkOffer offer{.id = id, .stripe = {{kSegment, peer_gid(pair), gid(1)}, stripe(pair)}, .end = {}};
    const std::uint8_t kind = input.byte();
    if (kind % 4 == 1) offer.stripe.pair.peer = gid(2);  // a GID that no VM has
    offer.end = {.qpn = 5, .psn = kPsn, .reads = 8};
    if (kind % 4 != 2) {  // 2: the QP does not exist
      offer.end.qpn = make_qp(id);
      if (offer.end.qpn == 0) return;
    }
    BulkRoom room;
    say(encode_bulk(next_, offer, room), {});
  }
  void lend(test::FuzzInput& input) {
    const verbs::Request request = any_request(input, true);
    const std::size_t count = 1 + input.byte() % 8;
    const Runs runs = runs_of(request.bytes, count, input.byte());
    BulkRoom room;
    say(encode_lent(next_, kSegment, request, runs, room), {});
  }
  void send(test::FuzzInput& input) {
    const verbs::Request request = any_request(input, false);
    wire::Head head;
    say(wire::encode(next_, kSegment, request, head), std::span(memory_).first(request.bytes));
  }
  void say_returned(test::FuzzInput& input) {
    const std::uint8_t id = input.byte();
    BulkRoom room;
    say(encode_bulk(next_, BulkReturned{.id = id, .count = input.byte()}, room), {});
  }

 private:
  // The stripe of the first connections for the lowest values, then the other stripes in turn.
  static std::uint16_t stripe(std::uint8_t pair) {
    return static_cast<std::uint16_t>((kFirstQpn + pair / kPairs) % kStripes);
  }
  verbs::Request any_request(test::FuzzInput& input, bool is_long) {
    verbs::Request request{.number = verbs::MessageNumber(number_++ & 0xff'ffff)};
    request.op = verbs::RequestOp::kWrite;
    request.from.gid = peer_gid(input.byte());
    request.to.gid = gid(1);
    request.from.qpn = request.to.qpn = qpn_of(input.byte());
    constexpr std::uint32_t kMost = kTargetBytes + 100;
    request.bytes = request.message_bytes = 1 + (is_long ? input.u16() % kMost : input.byte());
    return request;
  }
  void on_bulk_frame(const BulkFrame& frame) override {
    const auto* answer = std::get_if<BulkAnswer>(&frame.body);
    if (answer != nullptr && answer->end.qpn != 0) connect(answer->id, answer->end);
  }
};

// The VM's engine answers a read, which the peer may not have sent.
void lend_answer(BulkFuzz<Peer>& fuzz, test::FuzzInput& input) {
  verbs::Response response{.op = verbs::RequestOp::kRead};
  response.to.gid = peer_gid(input.byte());
  response.from.gid = gid(1);
  response.from.qpn = response.to.qpn = qpn_of(input.byte());
  response.bytes = 1 + input.u16() % kTargetBytes;
  const std::size_t target = OneVm::target_of(response.to.gid, response.from.qpn);
  const auto payload = fuzz.vm().memory_of(target, response.bytes);
  if (fuzz.pipe().lend(kSegment, response, static_cast<std::uint32_t>(target), payload))
    fuzz.vm().count_lent_answer(target);
}

void run(test::FuzzInput input) {
  BulkFuzz<Peer> fuzz(Pipe::Role::kAcceptor);
  for (int steps = 0; steps < kStepsMax && !input.empty(); ++steps) {
    const auto step = static_cast<Step>(input.byte() % static_cast<unsigned>(Step::kCount));
    const bool says = step <= Step::kStopped || step == Step::kReturned;
    if (says && !fuzz.peer().may_say()) continue;
    switch (step) {
      case Step::kOffer:
        fuzz.peer().offer(input);
        break;
      case Step::kLent:
        fuzz.peer().lend(input);
        break;
      case Step::kSmall:
        fuzz.peer().send(input);
        break;
      case Step::kStopped:
        fuzz.peer().say_stopped(input.byte());
        break;
      case Step::kReturned:
        fuzz.peer().say_returned(input);
        break;
      case Step::kLendAnswer:
        lend_answer(fuzz, input);
        break;
      case Step::kLocalStop:
        fuzz.vm().stop(fuzz.pipe(), input.byte() % kPairs);
        break;
      case Step::kMemoryGoes:
        fuzz.vm().take_memory_away(fuzz.pipe());
        break;
      case Step::kVerdict:
        fuzz.vm().verdict = input.byte();
        break;
      case Step::kTime:
      case Step::kCount:
        fuzz.pass(input.u16() % 1000);
        break;
    }
    fuzz.turn();
  }
}

}  // namespace
}  // namespace pvrdma::transport::hca

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::transport::hca::run({data, size});
  return 0;
}
