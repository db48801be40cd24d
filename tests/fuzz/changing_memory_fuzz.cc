// Fuzzes an adapter whose guest changes its memory between any two reads by the device. Before each read, a
// hook (guestmem/read_hook.h) lets the input write to ring indices, elements, page directories, the command
// slot and the bytes that are read next, or ring mapped doorbells.
//
// A is the hostile guest, with a connection to itself and one to B. B and C are neighbours: B has granted A
// one buffer, and C is idle. Input: options@0:1 (bit 0: doorbells are mapped, and A's and B's objects belong
// to a process), length@1:2 and a script for the hook, then steps, see Step. The fuzzer checks: nothing
// crashes; no byte of B's other buffers and of C's whole RAM changes; afterwards B is served as before.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "device/capabilities.h"
#include "guestmem/read_hook.h"
#include "support/fuzz_input.h"
#include "support/must.h"
#include "support/testbench.h"
#include "vocabulary/doorbell_mode.h"

namespace pvrdma {
namespace {

using test::FuzzInput;
using test::must;
using test::RcEndpoint;

constexpr std::uint32_t kA = 0, kB = 1, kC = 2;
constexpr std::size_t kBufferBytes = 16 * 1024;
constexpr int kStepsMax = 48;
constexpr std::size_t kPages = 8;        // doorbell pages to which the hook writes
constexpr std::size_t kWordsOfPage = 4;  // QP, CQ, SRQ, and one without a meaning
constexpr int kTurnsMax = 64;            // a hostile guest's adapter always asks for another turn

enum class Step : std::uint8_t {
  kSend,      // connection@0:1, kind@1:1, bytes@2:2, place@4:2
  kReceive,   // connection@0:1
  kDoorbell,  // connection@0:1, action@1:4
  kPoll,      // connection@0:1
  kArm,       // connection@0:1
  kRegion,    // pages@0:1: makes and destroys an MR
  kQueues,    // makes and destroys a CQ and an SRQ
  kQp,        // connection@0:1, what@1:1: to ERR, to SQD, queried
  kMemory,    // offset@0:4, value@4:8
  kRun,
  kTime,     // milliseconds@0:2
  kWord,     // page@0:1, word@1:1, value@2:4: into any doorbell page
  kContext,  // makes and destroys a process's context
  kCount
};

// What the hook does. Each read takes one byte: the low 3 bits are the change, the upper 5 its argument.
enum class Change : std::uint8_t {
  kNothing,
  kSkip,
  kNext,
  kFlip,
  kAnywhere,
  kIndices,
  kElement,
  kWord,
  kCount
};

test::TestbenchOptions options(DoorbellMode doorbells) {
  test::TestbenchOptions options;
  options.adapter_count = 3;
  options.doorbells = doorbells;
  options.limits = device::limits_of(options.hardware_version, options.profile);
  options.limits->max_qp = 64;
  options.limits->max_cq = 64;
  options.limits->max_mr = 64;
  options.limits->max_pd = 64;
  options.driver.ram.size_bytes = 1u << 20;
  options.driver.command_timeout = Duration(0);  // answers come at once or never
  return options;
}
test::EndpointOptions small(driver::Context& context) {
  test::EndpointOptions options = test::small_endpoint(context);
  options.buffer_bytes = kBufferBytes;
  options.placement = driver::Placement::kContiguous;
  return options;
}
// Long time limits, so that time can pass in few turns.
test::ConnectOptions slow() {
  return {.timeout = 17, .min_rnr_timer = 31};
}
std::span<std::byte> ram_of(test::Testbench& bench, std::uint32_t index) {
  driver::GuestRam& ram = bench.device(index).ram();
  return {ram.at(ram.base(), ram.size_bytes()), ram.size_bytes()};
}

// The context of a VM's objects: a process's if doorbells are mapped, because the kernel's doorbells never
// are.
class Owner {
 public:
  explicit Owner(test::Testbench& bench, std::uint32_t index) : device_(bench.device(index)) {
    if (bench.adapter(index).info().doorbells == DoorbellMode::kMapped)
      process_ = must(driver::Context::create_user(device_));
  }
  driver::Context& context() { return process_ ? *process_ : device_.kernel(); }

 private:
  driver::Device& device_;
  std::unique_ptr<driver::Context> process_;
};

// B and C are the same for all inputs: no input may change their memory or how they are served.
class Neighbours {
 public:
  explicit Neighbours(test::Testbench& bench)
      : bench_(bench),
        owner_(bench, kB),
        secret_(bench.device(kB), test::gid_of(kB), small(owner_.context())),
        honest_(bench.device(kB), test::gid_of(kB), small(owner_.context())) {
    must(test::connect(secret_, honest_, slow()));
    secret_.fill(0, kBufferBytes, 77);
    ungranted_.assign(secret_.bytes(), secret_.bytes(kBufferBytes));
    const auto ram = ram_of(bench, kC);
    idle_.assign(ram.begin(), ram.end());
  }

  driver::Context& context() { return owner_.context(); }  // B's

  void check() {
    PVRDMA_CHECK(std::memcmp(ungranted_.data(), secret_.bytes(), kBufferBytes) == 0,
                 "what B did not grant is as it was");
    PVRDMA_CHECK(std::memcmp(idle_.data(), ram_of(bench_, kC).data(), idle_.size()) == 0,
                 "an idle neighbour's RAM is as it was");
    const driver::Sge sge = secret_.sge(0, 64);
    std::memset(honest_.bytes(), 0, 64);
    PVRDMA_CHECK(secret_.qp->post_send(driver::wr::write(1, {&sge, 1}, honest_.remote())).ok(), "B posts");
    bench_.run();
    std::array<driver::WorkCompletion, 2> done;
    PVRDMA_CHECK(secret_.send_cq->poll(done) == 1 && done[0].ok() && done[0].wr_id == 1, "B is served");
    PVRDMA_CHECK(std::memcmp(secret_.bytes(), honest_.bytes(), 64) == 0, "B's bytes arrive");
  }

 private:
  test::Testbench& bench_;
  Owner owner_;
  RcEndpoint secret_;
  RcEndpoint honest_;
  std::vector<std::byte> ungranted_;  // a copy of secret_'s buffer
  std::vector<std::byte> idle_;       // a copy of C's RAM
};

// A. Each input has its own VMM and driver.
class Guest {
 public:
  Guest(test::Testbench& bench, driver::Context& of_b)
      : bench_(bench),
        a_(bench.device(kA)),
        owner_(bench, kA),
        loop_{RcEndpoint(a_, test::gid_of(kA), small(owner_.context())),
              RcEndpoint(a_, test::gid_of(kA), small(owner_.context()))},
        out_(a_, test::gid_of(kA), small(owner_.context())),
        granted_(bench_.device(kB), test::gid_of(kB), small(of_b)) {
    must(test::connect(loop_[0], loop_[1], slow()));
    must(test::connect(out_, granted_, slow()));
    current_ = this;
    must(a_.query_port());  // its first read shows the hook which memory is A's
    PVRDMA_CHECK(memory_ != nullptr, "the hook sees the reads");
  }
  ~Guest() {
    current_ = nullptr;
    bench_.kill(kA);
  }

  static Guest* current() { return current_; }

  void run(FuzzInput input) {
    const std::size_t length = input.u16();
    script_ = FuzzInput(input.take_bytes(length));
    for (int i = 0; i < kStepsMax && !input.empty(); ++i) step(input);
  }

  // The device is about to read `bytes` bytes at `at`.
  void before_read(const guestmem::AddressSpace& memory, const std::byte* at, std::size_t bytes) {
    if (memory_ == nullptr) memory_ = &memory;
    if (&memory != memory_ || script_.empty()) return;
    if (skip_ != 0) {
      --skip_;
      return;
    }
    const std::uint8_t what = script_.byte();
    const std::size_t argument = what >> 3;
    std::byte* const next = const_cast<std::byte*>(at);  // A's memory is mapped for writing
    switch (static_cast<Change>((what & 7) % static_cast<std::uint8_t>(Change::kCount))) {
      case Change::kNothing:
      case Change::kCount:
        return;
      case Change::kSkip:
        skip_ = argument;
        return;
      case Change::kNext:
        put(next, bytes, argument * 4);
        return;
      case Change::kFlip:
        next[argument % bytes] ^= std::byte{script_.byte()};
        return;
      case Change::kAnywhere:
        put(ram_of(bench_, kA).data(), ram_of(bench_, kA).size(), script_.u32());
        return;
      case Change::kIndices:
        change_indices(argument);
        return;
      case Change::kElement: {
        const driver::WorkRing& ring = end(argument).qp->send_ring();
        std::byte* const element = ring.element(script_.byte() % ring.count());
        const std::size_t offset = script_.byte();
        put(element, ring.stride_bytes(), offset);
        return;
      }
      case Change::kWord:
        // Not page 0: its doorbells are trapped, so they are calls, which come only when the device can take
        // them.
        if (is_mapped()) ring(1 + argument % kPages, script_.byte(), script_.u32());
        return;
    }
  }

 private:
  // One of A's ends.
  RcEndpoint& end(std::size_t number) { return number % 3 == 2 ? out_ : loop_[number % 3]; }

  bool is_mapped() { return !owner_.context().is_kernel(); }
  void ring(std::size_t page, std::size_t word, std::uint32_t value) {
    static_cast<void>(a_.bus().region_write32(
        driver::Region::kUar, page * abi::kUarPageBytes + word % kWordsOfPage * sizeof value, value));
  }

  // Writes up to 8 bytes of the script.
  void put(std::byte* to, std::size_t room, std::size_t offset) {
    const std::size_t width = std::size_t{1} << (script_.byte() % 4);
    const auto bytes = script_.take_bytes(width);
    offset %= room;
    std::copy_n(bytes.begin(), std::min(bytes.size(), room - offset), to + offset);
  }
  void change_indices(std::size_t argument) {
    RcEndpoint& at = end(argument / 6);
    const std::array<driver::RingState, 3> states{at.qp->send_ring().state(), at.qp->recv_ring().state(),
                                                  at.send_cq->ring().state()};
    const driver::RingState& state = states[argument / 2 % 3];
    const std::uint32_t value = script_.u32();
    argument % 2 == 0 ? state.set_tail(value) : state.set_head(value);
  }

  void step(FuzzInput& input) {
    const auto what = static_cast<Step>(input.byte() % static_cast<std::uint8_t>(Step::kCount));
    switch (what) {
      case Step::kSend:
        return send(input);
      case Step::kReceive: {
        RcEndpoint& at = end(input.byte());
        at.recv(2, 4096, 1024);
        return;
      }
      case Step::kDoorbell: {
        RcEndpoint& at = end(input.byte());
        static_cast<void>(at.qp->ring_doorbell(input.u32()));
        return;
      }
      case Step::kPoll: {
        std::array<driver::WorkCompletion, 8> done;
        RcEndpoint& at = end(input.byte());
        at.send_cq->poll(done);
        at.recv_cq->poll(done);
        return;
      }
      case Step::kArm:
        static_cast<void>(end(input.byte()).send_cq->arm());
        return;
      case Step::kRegion:
        static_cast<void>(driver::MemoryRegion::of_buffer(out_.pd, *out_.buffer, test::kFullAccess, 0,
                                                          1 + input.byte() % 4 * std::size_t{4096}));
        return;
      case Step::kQueues:
        static_cast<void>(driver::CompletionQueue::create(out_.pd.context(), 64));
        static_cast<void>(driver::SharedReceiveQueue::create(out_.pd, {.max_wr = 8, .max_sge = 1}));
        return;
      case Step::kQp:
        return change_qp(end(input.byte()), input.byte());
      case Step::kMemory: {
        const std::size_t offset = input.u32() % (ram_of(bench_, kA).size() - sizeof(std::uint64_t));
        const std::uint64_t value = input.u64();
        std::memcpy(ram_of(bench_, kA).data() + offset, &value, sizeof value);
        return;
      }
      case Step::kRun:
        return turns();
      case Step::kTime:
        return pass(std::chrono::milliseconds(input.u16() % 4096));
      case Step::kWord: {
        const std::size_t page = input.byte();
        const std::size_t word = input.byte();
        return ring(page, word, input.u32());
      }
      case Step::kContext:
        static_cast<void>(driver::Context::create_user(a_));
        return;
      case Step::kCount:
        return;
    }
  }

  void send(FuzzInput& input) {
    const std::uint8_t number = input.byte();
    RcEndpoint& from = end(number);
    const RcEndpoint& to = number % 3 == 2 ? granted_ : loop_[1 - number % 3];
    const std::uint8_t kind = input.byte();
    const driver::Sge sge = from.sge(0, 1 + input.u16() % kBufferBytes);
    const driver::Remote remote = to.remote(input.u16());
    const std::span<const driver::Sge> sges(&sge, 1);
    const auto request = [&]() -> driver::SendRequest {
      switch (kind % 5) {
        case 0:
          return driver::wr::send(1, sges);
        case 1:
          return driver::wr::write(1, sges, remote);
        case 2:
          return driver::wr::read(1, sges, remote);
        case 3:
          return driver::wr::write_imm(1, sges, remote, 9);
        default:
          return driver::wr::fetch_add(1, sges, {remote.addr & ~7ull, remote.rkey}, 1);
      }
    }();
    from.qp->post_send(request);
  }

  static void change_qp(RcEndpoint& at, std::uint8_t what) {
    if (what % 3 == 0) static_cast<void>(at.qp->to_error());
    if (what % 3 == 1) static_cast<void>(at.qp->to_sqd());
    if (what % 3 == 2) static_cast<void>(at.qp->query());
  }

  void turns() { bench_.run(kTurnsMax); }
  // Lets time pass. Fires a bounded number of deadlines, because they may follow each other for ever.
  void pass(Duration time) {
    const Instant end = bench_.now() + time;
    for (int i = 0; i < kTurnsMax && bench_.next_deadline() <= end; ++i) {
      bench_.advance(std::max(Duration(0), bench_.next_deadline() - bench_.now()));
    }
  }

  static Guest* current_;

  test::Testbench& bench_;
  driver::Device& a_;
  Owner owner_;
  std::array<RcEndpoint, 2> loop_;
  RcEndpoint out_;
  RcEndpoint granted_;
  const guestmem::AddressSpace* memory_ = nullptr;
  FuzzInput script_{nullptr, 0};
  std::size_t skip_ = 0;
};

Guest* Guest::current_ = nullptr;

}  // namespace

void guestmem::before_read(const AddressSpace& memory, const std::byte* at, std::size_t bytes) {
  if (Guest::current() != nullptr) Guest::current()->before_read(memory, at, bytes);
}

}  // namespace pvrdma

namespace pvrdma {
namespace {

// All VMs with one doorbell mode.
struct World {
  explicit World(DoorbellMode doorbells) : bench(options(doorbells)) {}

  void run(FuzzInput input) {
    {
      Guest guest(bench, neighbours.context());
      guest.run(input);
      neighbours.check();  // while A exists
    }
    bench.forget_device(kA);
  }

  test::Testbench bench;
  Neighbours neighbours{bench};
};

}  // namespace
}  // namespace pvrdma

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma;
  static World trapped(DoorbellMode::kTrapped);
  static World mapped(DoorbellMode::kMapped);
  test::FuzzInput input(data, size);
  const bool is_mapped = (input.byte() & 1) != 0;
  (is_mapped ? mapped : trapped).run(input);
  return 0;
}
