// The start state of most packet scripts: an RC QP in RTS whose peer is the test. Thread: a test's.
#pragma once

#include "verbs/engine_fixture.h"

namespace pvrdma::verbs {

inline const Endpoint kPeer{test_gid(52), Qpn(77)};
inline constexpr std::uint32_t kSqPsn = 100;
inline constexpr std::uint32_t kRqPsn = 200;
inline constexpr std::uint32_t kMrBytes = 2u << 20;

class ConnectedQp : public ::testing::Test {
 protected:
  explicit ConnectedQp(UarIndex uar = 1) : a(51, uar) {}

  void SetUp() override { a.connect(qp, kPeer, connection()); }
  virtual ConnectOptions connection() const { return {.sq_psn = kSqPsn, .rq_psn = kRqPsn}; }

  // What the QP has sent since the last call.
  std::vector<SentMessage<Request>> sent() { return std::exchange(a.wire.requests, {}); }
  std::vector<SentMessage<Response>> answers() { return std::exchange(a.wire.responses, {}); }
  // The sequence numbers of those messages.
  std::vector<std::uint32_t> sent_numbers() {
    std::vector<std::uint32_t> out;
    for (const auto& one : sent()) out.push_back(one.message.number.value);
    return out;
  }

  // --- The peer answers. ---

  void answer(Response response, std::vector<std::byte> payload = {}) {
    response.from = kPeer;
    response.to = a.endpoint(qp);
    TestPayload bytes(std::move(payload));
    a.engine.on_response(response, bytes, a.now);
    a.settle();
  }
  void ack(std::uint32_t number) {
    answer({.number = MessageNumber(number), .syndrome = Syndrome::kAck, .op = RequestOp::kWrite});
  }
  void nak(std::uint32_t number, Syndrome syndrome, std::uint32_t offset = 0) {
    answer({.number = MessageNumber(number),
            .syndrome = syndrome,
            .op = RequestOp::kWrite,
            .rnr_timer = 12,
            .offset = offset});
  }
  void read_data(std::uint32_t number, std::uint32_t offset, std::vector<std::byte> data) {
    const auto bytes = static_cast<std::uint32_t>(data.size());
    answer({.number = MessageNumber(number),
            .syndrome = Syndrome::kAck,
            .op = RequestOp::kRead,
            .offset = offset,
            .bytes = bytes},
           std::move(data));
  }
  void atomic_result(std::uint32_t number, RequestOp op, std::uint64_t original) {
    answer(
        {.number = MessageNumber(number), .syndrome = Syndrome::kAck, .op = op, .atomic_original = original});
  }

  // --- The peer asks. ---

  // Sets the PSN to the message number, as if each earlier message had taken one packet.
  Request request(RequestOp op, std::uint32_t number, std::uint32_t bytes = 0) const {
    Request out;
    out.from = kPeer;
    out.to = a.endpoint(qp);
    out.op = op;
    out.number = MessageNumber(number);
    out.psn = Psn(number);
    out.message_bytes = out.bytes = bytes;
    out.remote_addr = mr.start;
    out.rkey = mr.key;
    return out;
  }
  void ask(const Request& request, std::vector<std::byte> payload = {}) {
    TestPayload bytes(std::move(payload));
    a.engine.on_request(request, bytes, a.now);
    a.settle();
  }
  // The only response since the last call.
  Response answered() {
    const auto all = answers();
    EXPECT_THAT(all, ::testing::SizeIs(1));
    return all.empty() ? Response{} : all[0].message;
  }
  // Sends the request with `request.bytes` bytes of a pattern.
  void ask_filled(const Request& request, std::uint8_t seed = 1) {
    ask(request, TestAdapter::pattern_bytes(request.bytes, seed));
  }

  // --- The guest. ---

  SendWr write(std::uint64_t wr_id, std::uint32_t bytes = 64) const {
    return with_sge(abi::Opcode::kRdmaWrite, wr_id, bytes);
  }
  SendWr read(std::uint64_t wr_id, std::uint32_t bytes = 64) const {
    return with_sge(abi::Opcode::kRdmaRead, wr_id, bytes);
  }
  SendWr send_wr(std::uint64_t wr_id, std::uint32_t bytes = 64) const {
    return with_sge(abi::Opcode::kSend, wr_id, bytes);
  }
  SendWr fetch_add(std::uint64_t wr_id, std::uint64_t add = 1) const {
    SendWr wr = with_sge(abi::Opcode::kAtomicFetchAndAdd, wr_id, 8);
    wr.compare_add = add;
    return wr;
  }
  SendWr with_sge(abi::Opcode opcode, std::uint64_t wr_id, std::uint32_t bytes) const {
    SendWr wr{.wr_id = wr_id, .opcode = opcode};
    if (bytes != 0) wr.sges = {mr.sge(0, bytes)};
    return wr;
  }
  ReceiveWr receive_of(std::uint64_t wr_id, std::uint64_t offset, std::uint32_t bytes) const {
    return {.wr_id = wr_id, .sges = {mr.sge(offset, bytes)}};
  }
  std::vector<Completion> sends_done() { return a.poll(send_cq); }
  std::vector<Completion> receives_done() { return a.poll(recv_cq); }
  void advance(Duration time) { a.advance(time); }

  TestAdapter a;
  TestCq send_cq = a.make_cq();
  TestCq recv_cq = a.make_cq();
  TestMr mr = a.make_mr(kMrBytes);
  TestQp qp = a.make_qp(send_cq, recv_cq);
};

inline const Duration kAckTimeout = ack_timeout(14);  // for the timeout in ConnectOptions' defaults
inline const Duration kRnrDelay = rnr_delay(12);

}  // namespace pvrdma::verbs
