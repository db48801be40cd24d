// What an observer is told: each message once, in order, with its payload and PSN.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using ::testing::ElementsAre;

// Writes one line per message: "out write 100 64 bytes: 64".
class Diary final : public MessageObserver {
 public:
  void on_request(Direction direction, const Request& request, const guestmem::SpanList* payload, abi::Mtu,
                  Instant) override {
    add(direction, "request", request.psn.value, payload);
  }
  void on_response(Direction direction, const Response& response, const Answered& answered,
                   const guestmem::SpanList* payload, abi::Mtu, Instant) override {
    add(direction, "response " + std::to_string(static_cast<int>(response.syndrome)), answered.psn.value,
        payload);
  }
  void on_datagram(Direction direction, const Datagram&, const guestmem::SpanList& payload,
                   Instant) override {
    add(direction, "datagram", 0, &payload);
  }
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

 private:
  void add(Direction direction, const std::string& what, std::uint32_t psn,
           const guestmem::SpanList* payload) {
    lines_.push_back((direction == Direction::kInbound ? "in " : "out ") + what + " " + std::to_string(psn) +
                     " " + (payload == nullptr ? "none" : std::to_string(payload->bytes())));
  }
  std::vector<std::string> lines_;
};

class Observed : public ConnectedQp {
 protected:
  void SetUp() override {
    ConnectedQp::SetUp();
    a.wire.observe(&diary);
  }
  Diary diary;
};

TEST_F(Observed, SeesWhatIsSentAndItsAnswers) {
  a.post(qp, write(1, 2500));
  a.post(qp, read(2, 3000));
  a.ring(qp);
  EXPECT_THAT(diary.take(), ElementsAre("out request 100 2500", "out request 103 0"));
  ack(kSqPsn);
  read_data(kSqPsn + 1, 0, TestAdapter::pattern_bytes(2048, 1));
  read_data(kSqPsn + 1, 2048, TestAdapter::pattern_bytes(952, 1));
  EXPECT_THAT(diary.take(),
              ElementsAre("in response 0 102 none", "in response 0 103 2048", "in response 0 105 952"));
}

TEST_F(Observed, SeesWhatArrivesBeforeItsAnswer) {
  Request first = request(RequestOp::kWrite, kRqPsn, 1500);
  first.psn = Psn(kRqPsn);
  ask_filled(first);
  EXPECT_THAT(diary.take(), ElementsAre("in request 200 1500", "out response 0 201 0"));
  ask_filled(first);  // a duplicate
  EXPECT_THAT(diary.take(), ElementsAre("in request 200 none", "out response 0 201 0"));
  Request reading = request(RequestOp::kRead, kRqPsn + 1, 2000);
  reading.psn = Psn(kRqPsn + 2);
  ask(reading);
  EXPECT_THAT(diary.take(), ElementsAre("in request 202 none", "out response 0 202 2000"));
}

TEST_F(Observed, SeesRefusalsAtThePacketTheyMean) {
  Request early = request(RequestOp::kWrite, kRqPsn + 3, 64);
  early.psn = Psn(kRqPsn + 9);
  ask_filled(early);
  EXPECT_THAT(diary.take(), ElementsAre("in request 209 none", "out response 3 200 0"));
  Request unexpected = request(RequestOp::kSend, kRqPsn, 64);  // no receive is posted for it
  unexpected.psn = Psn(kRqPsn);
  ask_filled(unexpected);
  EXPECT_THAT(diary.take(), ElementsAre("in request 200 none", "out response 2 200 0"));
  a.post(qp, write(1, 5000));
  a.ring(qp);
  diary.take();
  nak(kSqPsn, Syndrome::kNakSequence, 2048);
  EXPECT_THAT(diary.take(), ElementsAre("in response 3 102 none", "out request 100 2952"));
  nak(kSqPsn, Syndrome::kNakRemoteAccess);
  EXPECT_THAT(diary.take(), ElementsAre("in response 5 100 none"));
}

TEST_F(Observed, IsLeftAloneAgainByWhatArrived) {
  Request first = request(RequestOp::kWrite, kRqPsn, 64);
  ask_filled(first);
  EXPECT_EQ(a.wire.observer(), &diary);
  a.wire.observe(nullptr);
  diary.take();
  ask_filled(request(RequestOp::kWrite, kRqPsn + 1, 64));
  EXPECT_THAT(diary.take(), ElementsAre());
}

}  // namespace
}  // namespace pvrdma::verbs
