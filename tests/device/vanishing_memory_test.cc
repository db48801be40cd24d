// Memory that a VMM takes away page by page. A has every kind of object. For each command and each operation
// on rings, each page of A that the device touches is taken away once before the operation, and once before
// each read of the device during it. A's adapter fails, the process goes on, and the neighbour B is served.
//
// This program compiles the sources that read guest memory itself, with the hook before each read
// (guestmem/read_hook.h).
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "base/fd.h"
#include "device/adapter_info.h"
#include "guestmem/read_hook.h"
#include "guestmem/sigbus.h"
#include "support/must.h"
#include "support/testbench.h"

namespace pvrdma {
namespace {

using test::must;
using test::RcEndpoint;
namespace wr = driver::wr;

constexpr std::uint32_t kA = 0, kB = 1;
constexpr std::uint32_t kQkey = 0x1122'3344;
constexpr std::size_t kRamBytes = 512 * 1024;
constexpr std::size_t kBufferBytes = 8192;
constexpr int kTurnsMax = 64;

test::TestbenchOptions options(DoorbellMode doorbells) {
  test::TestbenchOptions options;
  options.doorbells = doorbells;
  options.driver.ram.size_bytes = kRamBytes;
  options.driver.command_timeout = Duration(0);  // answers come at once or never
  return options;
}

template <typename T>
std::span<const T> one(const T& value) {
  return {&value, 1};
}

test::EndpointOptions small(driver::Context& context, driver::SharedReceiveQueue* srq = nullptr,
                            driver::ProtectionDomain* pd = nullptr) {
  test::EndpointOptions options = test::small_endpoint(context);
  options.buffer_bytes = kBufferBytes;
  options.srq = srq;
  options.pd = pd;
  return options;
}

// A UD QP in RTS, in the PD and with the memory and CQs of an RC endpoint.
std::unique_ptr<driver::QueuePair> datagram_qp(RcEndpoint& of) {
  auto qp = must(driver::QueuePair::create(of.pd, {.type = abi::QpType::kUd,
                                                   .send_cq = of.send_cq.get(),
                                                   .recv_cq = of.recv_cq.get(),
                                                   .max_send_wr = 8,
                                                   .max_recv_wr = 8}));
  must(qp->to_init({.qkey = kQkey}));
  must(qp->to_rtr());
  must(qp->to_rts(0));
  return qp;
}

void send_datagram(RcEndpoint& from, driver::QueuePair& by, const abi::Gid& gid,
                   const driver::QueuePair& to) {
  const driver::Sge sge = from.sge(0, 64);
  by.post_send(wr::send_to(
      1, one(sge), {.qpn = to.qpn(), .qkey = kQkey, .av = driver::address_vector(from.pd, {.dgid = gid})}));
}

void receive_datagram(RcEndpoint& memory, driver::QueuePair& qp) {
  const driver::Sge sge = memory.sge(4096, 256);
  qp.post_recv(driver::ReceiveRequest{1, one(sge)});
}

// The objects of a VM, in its kernel's context, or in that of a process if doorbells are mapped (the kernel's
// never are).
struct Objects {
  Objects(test::Testbench& bench, std::uint32_t index)
      : device(bench.device(index)),
        process(bench.adapter(index).info().doorbells == DoorbellMode::kMapped
                    ? must(driver::Context::create_user(device))
                    : nullptr),
        context(process ? *process : device.kernel()),
        rc(device, test::gid_of(index), small(context)),
        srq(must(driver::SharedReceiveQueue::create(rc.pd, {.max_wr = 8}))),
        with_srq(device, test::gid_of(index), small(context, srq.get(), &rc.pd)),
        ud(datagram_qp(rc)) {}

  driver::Device& device;
  std::unique_ptr<driver::Context> process;
  driver::Context& context;
  RcEndpoint rc;
  std::unique_ptr<driver::SharedReceiveQueue> srq;
  RcEndpoint with_srq;
  std::unique_ptr<driver::QueuePair> ud;
};

// A, which is attacked, and its peers at B. Each run has its own.
struct Scene {
  explicit Scene(test::Testbench& bench) : bench(bench), a(bench, kA), b(bench, kB) {
    must(test::connect(a.rc, b.rc));
    must(test::connect(a.with_srq, b.with_srq));
    bench.run();
  }

  test::Testbench& bench;
  Objects a;
  Objects b;
  std::unique_ptr<driver::SharedRegion> second_region;
};

struct Operation {
  std::string name;
  std::function<void(Scene&)> run;
  bool needs_kernel = false;  // is for a kernel's objects
};

void post(RcEndpoint& from, const driver::SendRequest& request) {
  from.qp->post_send(request);
}
driver::Sge all_of(const RcEndpoint& end) {
  return end.sge(0, kBufferBytes);
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all{
      {"query_port", [](Scene& s) { static_cast<void>(s.a.device.query_port()); }},
      {"query_pkey", [](Scene& s) { static_cast<void>(s.a.device.query_pkey(0)); }},
      {"uc", [](Scene& s) { static_cast<void>(driver::Context::create_user(s.a.device)); }},
      {"pd", [](Scene& s) { static_cast<void>(driver::ProtectionDomain::create(s.a.context)); }},
      {"mr",
       [](Scene& s) {
         static_cast<void>(driver::MemoryRegion::of_buffer(s.a.rc.pd, *s.a.rc.buffer, test::kFullAccess));
       }},
      {"cq", [](Scene& s) { static_cast<void>(driver::CompletionQueue::create(s.a.context, 16)); }},
      {"srq",
       [](Scene& s) { static_cast<void>(driver::SharedReceiveQueue::create(s.a.rc.pd, {.max_wr = 8})); }},
      {"modify_srq", [](Scene& s) { static_cast<void>(s.a.srq->set_limit(1)); }},
      {"query_srq", [](Scene& s) { static_cast<void>(s.a.srq->query()); }},
      {"qp",
       [](Scene& s) {
         static_cast<void>(driver::QueuePair::create(
             s.a.rc.pd, {.send_cq = s.a.rc.send_cq.get(), .recv_cq = s.a.rc.recv_cq.get()}));
       }},
      {"query_qp", [](Scene& s) { static_cast<void>(s.a.rc.qp->query()); }},
      {"qp_to_error",
       [](Scene& s) {
         s.a.rc.recv(1, 0, 64);
         const driver::Sge sge = all_of(s.a.rc);
         s.a.rc.qp->post_send(one(wr::send(2, one(sge))), driver::Doorbell::kSkip);
         static_cast<void>(s.a.rc.qp->to_error());
       }},
      {"qp_to_reset", [](Scene& s) { static_cast<void>(s.a.rc.qp->to_reset()); }},
      {"qp_through_sqd",
       [](Scene& s) {
         static_cast<void>(s.a.rc.qp->to_sqd());
         s.bench.run(kTurnsMax);
         static_cast<void>(s.a.rc.qp->sqd_to_rts());
       }},
      {"qp_reconnects",
       [](Scene& s) {
         static_cast<void>(s.a.rc.qp->to_reset());
         static_cast<void>(s.a.rc.connect_to(test::gid_of(kB), s.b.rc.qp->qpn()));
       }},
      {"bind",
       [](Scene& s) {
         static_cast<void>(s.a.device.bind_gid(3, test::gid_of(9)));
         static_cast<void>(s.a.device.unbind_gid(3, test::gid_of(9)));
       }},
      {"attach",
       [](Scene& s) {
         auto region =
             driver::SharedRegion::create(s.a.device.ram(), s.a.device.version(), s.a.device.uar_pfn(0));
         if (!region) return;
         s.second_region = std::move(*region);
         const std::uint64_t at = s.second_region->gpa().value;
         static_cast<void>(s.a.device.write_register(abi::Register::kDsrLow, static_cast<std::uint32_t>(at)));
         static_cast<void>(
             s.a.device.write_register(abi::Register::kDsrHigh, static_cast<std::uint32_t>(at >> 32)));
         static_cast<void>(s.a.device.write_register(abi::Register::kCtl, 0));
         s.bench.adapter(kA).set_link(false);
         static_cast<void>(s.a.device.write_register(abi::Register::kCtl, 2));
       }},
      {"link_events",
       [](Scene& s) {
         s.bench.adapter(kA).set_link(false);
         s.bench.adapter(kA).set_link(true);
       }},
      {"sends",
       [](Scene& s) {
         s.b.rc.recv(1, 0, kBufferBytes);
         const driver::Sge sge = all_of(s.a.rc);
         post(s.a.rc, wr::send(2, one(sge)));
       }},
      {"receives",
       [](Scene& s) {
         s.a.rc.recv(1, 0, kBufferBytes);
         const driver::Sge sge = all_of(s.b.rc);
         post(s.b.rc, wr::send_imm(2, one(sge), 7));
       }},
      {"receives_by_srq",
       [](Scene& s) {
         static_cast<void>(s.a.srq->set_limit(2));
         const driver::Sge into = s.a.with_srq.sge(0, kBufferBytes);
         s.a.srq->post_recv(driver::ReceiveRequest{1, one(into)});
         s.a.srq->post_recv(driver::ReceiveRequest{2, one(into)});
         const driver::Sge sge = all_of(s.b.with_srq);
         post(s.b.with_srq, wr::send(3, one(sge)));
       }},
      {"writes",
       [](Scene& s) {
         const driver::Sge sge = all_of(s.a.rc);
         post(s.a.rc, wr::write(1, one(sge), s.b.rc.remote()));
       }},
      {"is_written",
       [](Scene& s) {
         s.a.rc.recv(1, 0, 64);
         const driver::Sge sge = all_of(s.b.rc);
         post(s.b.rc, wr::write_imm(2, one(sge), s.a.rc.remote(), 7));
       }},
      {"reads",
       [](Scene& s) {
         const driver::Sge sge = all_of(s.a.rc);
         post(s.a.rc, wr::read(1, one(sge), s.b.rc.remote()));
       }},
      {"is_read",
       [](Scene& s) {
         const driver::Sge sge = all_of(s.b.rc);
         post(s.b.rc, wr::read(1, one(sge), s.a.rc.remote()));
       }},
      {"atomics",
       [](Scene& s) {
         const driver::Sge sge = s.a.rc.sge(0, 8);
         post(s.a.rc, wr::fetch_add(1, one(sge), s.b.rc.remote(), 1));
         post(s.a.rc, wr::compare_swap(2, one(sge), s.b.rc.remote(), 1, 2));
       }},
      {"is_target_of_atomics",
       [](Scene& s) {
         const driver::Sge sge = s.b.rc.sge(0, 8);
         post(s.b.rc, wr::fetch_add(1, one(sge), s.a.rc.remote(), 1));
         post(s.b.rc, wr::compare_swap(2, one(sge), s.a.rc.remote(), 1, 2));
       }},
      {"sends_a_datagram",
       [](Scene& s) {
         receive_datagram(s.b.rc, *s.b.ud);
         send_datagram(s.a.rc, *s.a.ud, test::gid_of(kB), *s.b.ud);
       }},
      {"receives_a_datagram",
       [](Scene& s) {
         receive_datagram(s.a.rc, *s.a.ud);
         send_datagram(s.b.rc, *s.b.ud, test::gid_of(kA), *s.a.ud);
       }},
      {"waits_for_a_completion",
       [](Scene& s) {
         static_cast<void>(s.a.rc.recv_cq->arm());
         s.a.rc.recv(1, 0, 64);
         const driver::Sge sge = s.b.rc.sge(0, 64);
         post(s.b.rc, wr::send(2, one(sge)));
         s.bench.run(kTurnsMax);
         s.a.device.dispatch_notifications();
         std::array<driver::WorkCompletion, 4> done;
         s.a.rc.recv_cq->poll(done);
       }},
      {"fast_registers",
       [](Scene& s) {
         auto region = driver::MemoryRegion::for_fast_register(s.a.rc.pd, 8);
         if (!region) return;
         static_cast<void>((*region)->set_page_list(s.a.rc.buffer->pages()));
         (*region)->next_key();
         post(s.a.rc, wr::fast_register(1, **region, 0x1000, kBufferBytes, test::kFullAccess));
         s.bench.run(kTurnsMax);
         post(s.a.rc, wr::local_invalidate(2, (*region)->rkey()));
         s.bench.run(kTurnsMax);
       },
       /*needs_kernel=*/true},
  };
  return all;
}

// Takes one page away before the device's read number `at_read` (0: at once), and counts reads. There is one
// at a time, because the hook is global.
class Thief {
 public:
  explicit Thief(Scene& scene) : ram_(scene.a.device.ram()) {
    current_ = this;
    must(scene.a.device.query_port());  // its first read shows the hook which memory is A's
    reads_ = 0;
  }
  ~Thief() { current_ = nullptr; }
  Thief(const Thief&) = delete;
  Thief& operator=(const Thief&) = delete;

  static Thief* current() { return current_; }

  void take(driver::GuestPhys page, std::uint64_t at_read) {
    page_ = page;
    at_read_ = at_read;
    if (at_read == 0) take_now();
  }
  void before_read(const guestmem::AddressSpace& memory) {
    if (memory_ == nullptr) memory_ = &memory;
    if (&memory != memory_) return;
    ++reads_;
    if (page_ && reads_ == at_read_) take_now();
  }

  std::uint64_t reads() const { return reads_; }
  bool was_noticed() const { return memory_->damaged(); }

 private:
  // As after ftruncate(), but for one page: the device's mapping of it goes to a file without bytes.
  void take_now() {
    static const Fd empty(::memfd_create("no bytes", MFD_CLOEXEC));
    memory_->for_each_ram([&](const guestmem::RamRange& range) {
      std::byte* const at = range.memory.data() + (page_->value - ram_.base().value);
      ASSERT_EQ(::mmap(at, abi::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty.get(), 0),
                at);
    });
  }

  static Thief* current_;

  driver::GuestRam& ram_;
  const guestmem::AddressSpace* memory_ = nullptr;
  std::optional<driver::GuestPhys> page_;
  std::uint64_t at_read_ = 0;
  std::uint64_t reads_ = 0;
};

Thief* Thief::current_ = nullptr;

struct Parameter {
  Operation operation;
  DoorbellMode doorbells;
};

std::string name_of(const Parameter& parameter) {
  return parameter.operation.name + "_" + std::string(to_text(parameter.doorbells));
}
void PrintTo(const Parameter& parameter, std::ostream* out) {
  *out << name_of(parameter);
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> all;
  for (const DoorbellMode mode : {DoorbellMode::kTrapped, DoorbellMode::kMapped}) {
    if (mode == DoorbellMode::kMapped && !kHostIsX86) continue;
    for (const Operation& operation : operations()) {
      if (mode == DoorbellMode::kTrapped || !operation.needs_kernel) all.push_back({operation, mode});
    }
  }
  return all;
}

class VanishingMemory : public ::testing::TestWithParam<Parameter> {
 protected:
  static void SetUpTestSuite() { must(guestmem::install_sigbus_handler()); }

  struct Seen {
    std::uint64_t reads = 0;
    bool noticed = false;
  };

  // One run of the operation, in which `page` (none: no page) goes before read number `at_read`.
  Seen run(std::optional<driver::GuestPhys> page, std::uint64_t at_read) {
    Seen seen;
    {
      Scene scene(bench_);
      Thief thief(scene);
      if (page) thief.take(*page, at_read);
      GetParam().operation.run(scene);
      bench_.run(kTurnsMax);
      bench_.advance(std::chrono::milliseconds(1));
      seen = {thief.reads(), thief.was_noticed()};
      if (seen.noticed) {
        EXPECT_EQ(bench_.adapter(kA).info().state, device::AdapterState::kFailed);
      } else {
        EXPECT_NE(bench_.adapter(kA).info().state, device::AdapterState::kFailed);
      }
      expect_served();
      bench_.kill(kA);
    }
    bench_.forget_device(kA);
    return seen;
  }

 private:
  void expect_served() {
    const driver::Sge sge = one_end_.sge(0, 64);
    one_end_.fill(0, 64, ++round_);
    ASSERT_TRUE(one_end_.qp->post_send(wr::write(1, one(sge), other_end_.remote())).ok());
    bench_.run(kTurnsMax);
    std::array<driver::WorkCompletion, 2> done;
    ASSERT_EQ(one_end_.send_cq->poll(done), 1u);
    EXPECT_TRUE(done[0].ok());
    EXPECT_TRUE(other_end_.holds(0, 64, round_));
  }

  test::Testbench bench_{options(GetParam().doorbells)};
  RcEndpoint one_end_{bench_.device(kB), test::gid_of(kB), small(bench_.device(kB).kernel())};
  RcEndpoint other_end_{bench_.device(kB), test::gid_of(kB), small(bench_.device(kB).kernel())};
  std::uint8_t round_ = 0;

 protected:
  void SetUp() override { must(test::connect(one_end_, other_end_)); }
};

TEST_P(VanishingMemory, EndsNobodyElse) {
  const Seen undisturbed = run(std::nullopt, 0);
  ASSERT_FALSE(undisturbed.noticed);
  std::vector<driver::GuestPhys> touched;
  const driver::GuestPhys base = options(GetParam().doorbells).driver.ram.base;
  for (std::uint64_t at = 0; at < kRamBytes; at += abi::kPageBytes) {
    const driver::GuestPhys page(base.value + at);
    SCOPED_TRACE("page " + std::to_string(page.value));
    if (run(page, 0).noticed) touched.push_back(page);
    if (HasFailure()) return;
  }
  EXPECT_FALSE(touched.empty());
  for (const driver::GuestPhys page : touched) {
    for (std::uint64_t at_read = 1; at_read <= undisturbed.reads; ++at_read) {
      SCOPED_TRACE("page " + std::to_string(page.value) + " before read " + std::to_string(at_read));
      run(page, at_read);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, VanishingMemory, ::testing::ValuesIn(parameters()),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace

void guestmem::before_read(const AddressSpace& memory, const std::byte*, std::size_t) {
  if (Thief::current() != nullptr) Thief::current()->before_read(memory);
}

}  // namespace pvrdma
