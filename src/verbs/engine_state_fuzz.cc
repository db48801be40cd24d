// Fuzzes states that another host saved: any records, with valid checksums.
//
// Input: a stream of saved state. The fuzzer first corrects its checksums, as far as the records' lengths are
// usable. Invariants: nothing crashes. A refusal leaves the engine empty and usable. A loaded state is saved
// as a state that loads again and is saved as the same bytes. A loaded engine works: turns, timers, messages
// to each of its QPs, commands, a reset. The state can be printed.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "state/reader.h"
#include "state/writer.h"
#include "support/guest_memory.h"
#include "support/load_engine.h"
#include "support/saved_stream.h"
#include "verbs/engine.h"
#include "verbs/print_state.h"

namespace pvrdma::verbs {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kTurnsMax = 16;
constexpr Instant kNow{std::chrono::seconds(1)};

class SilentEvents final : public EventSink {
 public:
  void completion_event(CqHandle) override {}
  void async_event(abi::EventType, std::uint32_t) override {}
  void qp_failed(Qpn, std::string_view) override {}
};

// Accepts every message and drops it.
class SilentPath final : public Path {
 public:
  std::uint32_t room(std::uint32_t wanted, Instant) override { return wanted; }
  void send_request(const Request&, const guestmem::SpanList&, Instant) override {}
  void send_response(const Response&, const guestmem::SpanList&, Instant) override {}
};

class SilentPort final : public SwitchPort {
 public:
  SilentPort() : SwitchPort(generation_) {}
  bool send_datagram(const Datagram&, const guestmem::SpanList&, Instant) override { return true; }
  void flush(Instant) override {}
  bool bind_gid(const Gid& gid) override { return gid.bytes[0] != 0xee; }  // another adapter has that GID
  void unbind_gid(const Gid&) override {}
  std::uint64_t set_stopped(bool) override { return 0; }

 private:
  void open_path(const Connection&, PathSlot& slot) override { slot.open<SilentPath>(); }

  std::atomic<std::uint64_t> generation_ = 1;
};

class Zeros final : public Payload {
 public:
  explicit Zeros(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t bytes() const override { return bytes_; }
  bool copy_to(const guestmem::SpanList& target) override {
    PVRDMA_CHECK(target.bytes() == bytes_, "the target has the payload's size");
    for (const guestmem::HostSpan& piece : target) std::memset(piece.data, 0, piece.size);
    return true;
  }

 private:
  const std::uint64_t bytes_;
};

struct Host {
  explicit Host(const guestmem::AddressSpace& memory)
      : engine(Limits{}, Rules{}, memory, events, port, account) {}

  bool load(const Bytes& stream) {
    state::Reader reader(stream);
    return test::load_engine(engine, reader, kNow).has_value();
  }
  Bytes save() const {
    state::Writer writer;
    engine.save(writer, kNow);
    return writer.finish();
  }

  SilentEvents events;
  SilentPort port;
  Account account{Budgets::none()};
  Engine engine;
};

void check_empty(const Engine& engine) {
  const Engine::ObjectCounts counts = engine.object_counts();
  PVRDMA_CHECK(counts.contexts + counts.pds + counts.mrs + counts.cqs + counts.qps + counts.srqs == 0,
               "a refusal leaves no object");
  for (const auto& entry : engine.gids().entries()) PVRDMA_CHECK(!entry, "a refusal leaves no GID");
}

// Sends messages as the QP's own peer: some that are due and some that are not.
void talk_to(Engine& engine, const QpInfo& qp) {
  const Endpoint here{qp.local_gid, qp.qpn};
  const Endpoint there{qp.attributes.dgid, qp.attributes.dest_qpn};
  const auto attr = engine.query_qp(qp.handle);
  PVRDMA_CHECK(attr, "a QP that is listed can be asked");
  for (const RequestOp op : {RequestOp::kSend, RequestOp::kWrite, RequestOp::kRead, RequestOp::kFetchAdd}) {
    for (const std::uint32_t bytes : {0u, 8u, 5000u}) {
      Zeros payload(op == RequestOp::kRead || op == RequestOp::kFetchAdd ? 0 : bytes);
      engine.on_request({.from = there,
                         .to = here,
                         .number = MessageNumber(attr->rq_psn),
                         .psn = Psn(attr->rq_psn),
                         .op = op,
                         .message_bytes = bytes,
                         .bytes = bytes,
                         .remote_addr = 0x10'0000,
                         .rkey = 0x100},
                        payload, kNow);
    }
  }
  for (std::uint32_t back = 0; back < 20; ++back) {
    for (const Syndrome syndrome : {Syndrome::kProgress, Syndrome::kAck, Syndrome::kRnrNak}) {
      Zeros payload(back % 2 == 0 ? 0 : 64);
      engine.on_response({.from = there,
                          .to = here,
                          .number = MessageNumber(attr->sq_psn - back),
                          .syndrome = syndrome,
                          .op = back % 2 == 0 ? RequestOp::kWrite : RequestOp::kRead,
                          .offset = 64 * back,
                          .bytes = static_cast<std::uint32_t>(payload.bytes())},
                         payload, kNow);
    }
  }
}

void work(Engine& engine) {
  Instant now = kNow;
  const std::vector<QpInfo> qps = engine.list_qps();
  engine.on_all_paths_restored(now);
  for (int turn = 0; turn < kTurnsMax; ++turn) {
    engine.run(now);
    if (turn == 2) std::for_each(qps.begin(), qps.end(), [&](const QpInfo& qp) { talk_to(engine, qp); });
    const Instant due = engine.next_deadline();
    if (due == Instant::never()) break;
    now = std::max(now, due);
    engine.on_time(now);
  }
  for (const QpInfo& qp : qps) {
    engine.send_doorbell(qp.context.value, qp.handle, now);
    PVRDMA_CHECK(engine.destroy_qp(qp.handle, now), "a QP that is listed can be destroyed");
  }
  static_cast<void>(engine.create_pd(kKernelContext));
}

void test(Bytes stream) {
  static test::GuestMemory memory(1u << 20);
  test::make_checksums_right(stream);
  Host first(memory.space());
  const bool loaded = first.load(stream);
  static_cast<void>(print_state(stream));
  if (!loaded) {
    check_empty(first.engine);
    PVRDMA_CHECK(first.engine.create_pd(kKernelContext), "a refusal leaves a usable engine");
    first.engine.reset();
    return;
  }
  const Bytes saved = first.save();
  Host second(memory.space());
  PVRDMA_CHECK(second.load(saved), "what an engine saves can be loaded");
  PVRDMA_CHECK(second.save() == saved, "a loaded engine is saved as the same bytes");
  work(first.engine);
  first.engine.reset();
  check_empty(first.engine);
}

}  // namespace
}  // namespace pvrdma::verbs

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  pvrdma::verbs::test({bytes.begin(), bytes.end()});
  return 0;
}
