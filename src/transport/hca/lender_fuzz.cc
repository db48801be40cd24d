// Fuzzes a dialler's bulk QPs. The peer sends well-formed frames with false content: QPs that may not exist,
// lent answers that may not have been asked for, with arbitrary keys and addresses, and stops out of turn.
// Meanwhile the local VM sends reads, lends, stops connections, refuses answers and gives up memory. The
// input is a sequence of steps, see Step; missing bytes are 0.
//
// Invariants:
// * The only bytes of the VM that change are those that its engine gave for an answer, and none of them after
//   a stop.
// * The device is never asked to do anything that it must not do.
// * The pipe stays up: a wrong key ends the QPs of two VMs and affects no other VM.
#include "transport/hca/bulk_fuzz_fixture.h"

namespace pvrdma::transport::hca {
namespace {

enum class Step : std::uint8_t {
  kLentAnswer,  // pair@0:1, connection@1:1, bytes@2:2, runs@4:1, key@5:1
  kStopped,     // id@0:1
  kAnswer,      // id@0:1, out of turn
  kOffers,      // how the peer treats the next offers@0:1
  kAsk,         // pair@0:1, connection@1:1, bytes@2:2
  kLend,        // pair@0:1, connection@1:1, bytes@2:2
  kLocalStop,   // pair@0:1
  kMemoryGoes,  // and is mapped again
  kVerdict,     // what the engine does with payload@0:1
  kTime,        // microseconds@0:2, in small steps
  kCount
};

constexpr int kStepsMax = 100;

// The accepting peer: it answers offers and connects.
class Peer final : public LyingPeer {
 public:
  using LyingPeer::LyingPeer;

  std::uint8_t offers = 0;  // 0: accepted; 1: refused; 2: answered with an invalid QP; 3: not answered

  void lend_answer(test::FuzzInput& input) {
    verbs::Response response{.number = verbs::MessageNumber(number_++ & 0xff'ffff),
                             .op = verbs::RequestOp::kRead};
    response.from.gid = peer_gid(input.byte());
    response.to.gid = gid(1);
    response.from.qpn = response.to.qpn = qpn_of(input.byte());
    response.bytes = 1 + input.u16() % (kTargetBytes + 100);
    const std::size_t count = 1 + input.byte() % 8;
    const Runs runs = runs_of(response.bytes, count, input.byte());
    BulkRoom room;
    say(encode_lent(next_, kSegment, response, runs, room), {});
  }
  using LyingPeer::answer;

 private:
  void on_bulk_frame(const BulkFrame& frame) override {
    const auto* offer = std::get_if<BulkOffer>(&frame.body);
    if (offer == nullptr || offers % 4 == 3 || !may_say()) return;
    if (offers % 4 != 0) return answer(offer->id, offers % 4 == 1 ? 0 : 5);
    accept(*offer);
  }
};

verbs::Request any_request(verbs::RequestOp op, test::FuzzInput& input) {
  verbs::Request request;
  request.op = op;
  request.to.gid = peer_gid(input.byte());
  request.from.gid = gid(1);
  request.from.qpn = request.to.qpn = qpn_of(input.byte());
  request.bytes = request.message_bytes = 1 + input.u16() % kTargetBytes;
  return request;
}

void run(test::FuzzInput input) {
  BulkFuzz<Peer> fuzz(Pipe::Role::kDialler);
  for (int steps = 0; steps < kStepsMax && !input.empty(); ++steps) {
    const auto step = static_cast<Step>(input.byte() % static_cast<unsigned>(Step::kCount));
    if (step <= Step::kAnswer && !fuzz.peer().may_say()) continue;
    switch (step) {
      case Step::kLentAnswer:
        fuzz.peer().lend_answer(input);
        break;
      case Step::kStopped:
        fuzz.peer().say_stopped(input.byte());
        break;
      case Step::kAnswer:
        fuzz.peer().answer(input.byte(), 7);
        break;
      case Step::kOffers:
        fuzz.peer().offers = input.byte();
        break;
      case Step::kAsk:
        fuzz.pipe().expect_loan(fuzz.vm().engine(), kSegment, any_request(verbs::RequestOp::kRead, input),
                                fuzz.now());
        break;
      case Step::kLend: {
        const verbs::Request request = any_request(verbs::RequestOp::kWrite, input);
        const auto payload =
            fuzz.vm().memory_of(OneVm::target_of(request.to.gid, request.from.qpn), request.bytes);
        static_cast<void>(fuzz.pipe().lend(fuzz.vm().engine(), kSegment, request, payload, fuzz.now()));
        break;
      }
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
