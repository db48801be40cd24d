// Saved adapters that versions of the daemon wrote (*.state), each with its text (*.txt). A version reads the
// files of earlier versions, so the format cannot change by accident.
//
// PVRDMA_WRITE_STATE=FOLDER writes the current version's files there, for a release or a new version of a
// record.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "gtest/gtest.h"

#include "device/capabilities.h"
#include "device/print_state.h"
#include "support/must.h"
#include "support/saved_stream.h"
#include "support/testbench.h"

namespace pvrdma::test {
namespace {

namespace fs = std::filesystem;
using driver::Sge;

// Small limits keep the text readable. They are given here so that a changed default does not change the
// adapter.
TestbenchOptions options(DoorbellMode doorbells) {
  TestbenchOptions out;
  out.hardware_version = HardwareVersion::k14;
  out.doorbells = doorbells;
  out.driver.ram.size_bytes = 8u << 20;
  out.limits = verbs::Limits{.max_context = 16,
                             .max_pd = 16,
                             .max_mr = 64,
                             .max_cq = 16,
                             .max_cqe = 1024,
                             .max_qp = 32,
                             .max_qp_wr = 1024,
                             .max_user_qp_wr = 1024,
                             .max_sge = 16,
                             .max_srq = 16,
                             .max_srq_wr = 256,
                             .max_rd_atomic = 16,
                             .max_ah = 16,
                             .gid_table_length = 4,
                             .mtu = abi::Mtu::k1024,
                             .max_mr_bytes = 1u << 30,
                             .max_ud_qp = 8};
  return out;
}

std::span<const Sge> one(const Sge& sge) {
  return {&sge, 1};
}

// An adapter with objects of all kinds, work in progress, and waiting events and doorbells.
class Saved {
 public:
  explicit Saved(DoorbellMode doorbells) : bench_(options(doorbells)) {
    make_objects();
    work();
    leave_waiting();
  }

  SavedBytes bytes() const {
    device::MsixTable table{};
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i);
    state::Writer writer({.product_version = PVRDMA_VERSION, .id = {0x60, 0x1d}});
    adapter().save(writer, table, bench_.now());
    return writer.finish();
  }

 private:
  device::Adapter& adapter() const { return bench_.adapter(0); }

  void make_objects() {
    driver::Device& here = bench_.device(0);
    must(here.bind_gid(2, gid_of(9)));
    user_ = must(driver::Context::create_user(here));
    kernel_pd_ = must(driver::ProtectionDomain::create(here.kernel()));
    srq_ = must(driver::SharedReceiveQueue::create(*kernel_pd_, {.max_wr = 16, .max_sge = 2, .limit = 1}));
    a_ = std::make_unique<RcEndpoint>(here, gid_of(0), EndpointOptions{.context = user_.get()});
    b_ = std::make_unique<RcEndpoint>(bench_.device(1), gid_of(1));
    c_ = std::make_unique<RcEndpoint>(here, gid_of(0),
                                      EndpointOptions{.srq = srq_.get(), .pd = kernel_pd_.get()});
    d_ = std::make_unique<RcEndpoint>(bench_.device(1), gid_of(1));
    must(connect(*a_, *b_));
    must(connect(*c_, *d_));
    cq_ = must(driver::CompletionQueue::create(here.kernel(), 64));
    for (const abi::QpType type : {abi::QpType::kUd, abi::QpType::kGsi}) {
      others_.push_back(must(driver::QueuePair::create(
          *kernel_pd_, {.type = type, .send_cq = cq_.get(), .recv_cq = cq_.get()})));
    }
    all_memory_ = must(driver::MemoryRegion::of_all_memory(*kernel_pd_, abi::kAccessLocalWrite));
    fast_ = must(driver::MemoryRegion::for_fast_register(*kernel_pd_, 8));
    { const RcEndpoint gone(here, gid_of(0)); }  // so that numbers do not begin at the first one
  }

  void work() {
    const Sge sge = a_->sge(0, 3000);
    ASSERT_TRUE(a_->qp->post_send(driver::wr::write(1, one(sge), b_->remote())).ok());
    const Sge word = b_->sge(0, 8);
    ASSERT_TRUE(b_->qp->post_send(driver::wr::fetch_add(2, one(word), a_->remote(4096), 3)).ok());
    const Sge receive = c_->sge(0, 500);
    ASSERT_TRUE(srq_->post_recv(driver::ReceiveRequest{3, one(receive)}).ok());
    must(a_->send_cq->arm());
    must(c_->recv_cq->arm(driver::CompletionQueue::Solicited::kOnly));
    bench_.advance(std::chrono::milliseconds(3));
    // There is no receive for this message.
    const Sge two[] = {a_->sge(0, 100), a_->sge(8192, 200)};
    ASSERT_TRUE(a_->qp->post_send(driver::wr::send_imm(4, two, 5)).ok());
    ASSERT_TRUE(a_->qp->post_send(driver::wr::read(5, one(sge), b_->remote())).ok());
    bench_.run();
  }

  void leave_waiting() {
    must(bench_.device(0).write_register(abi::Register::kImr, abi::kInterruptAsyncEvent));
    for (int i = 0; i < 515; ++i) adapter().set_link(i % 2 != 0);
    if (options_are_mapped()) must(a_->recv_cq->arm());  // a store that the daemon has not seen
  }
  bool options_are_mapped() const { return adapter().info().doorbells == DoorbellMode::kMapped; }

  mutable Testbench bench_;
  std::unique_ptr<driver::Context> user_;
  std::unique_ptr<driver::ProtectionDomain> kernel_pd_;
  std::unique_ptr<driver::SharedReceiveQueue> srq_;
  std::unique_ptr<RcEndpoint> a_;
  std::unique_ptr<RcEndpoint> b_;
  std::unique_ptr<RcEndpoint> c_;
  std::unique_ptr<RcEndpoint> d_;
  std::unique_ptr<driver::CompletionQueue> cq_;
  std::vector<std::unique_ptr<driver::QueuePair>> others_;
  std::unique_ptr<driver::MemoryRegion> all_memory_;
  std::unique_ptr<driver::MemoryRegion> fast_;
};

SavedBytes read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(chars));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const SavedBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(GOLDEN_FOLDER)) {
    if (entry.path().extension() == ".state") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

DoorbellMode doorbells_of(const fs::path& path) {
  return path.stem().string().ends_with("mapped") ? DoorbellMode::kMapped : DoorbellMode::kTrapped;
}

TEST(GoldenState, HasFilesOfThisVersion) {
  const std::string now = std::string("v") + PVRDMA_VERSION + "_";
  for (const char* mode : {"trapped", "mapped"})
    EXPECT_TRUE(fs::exists(fs::path(GOLDEN_FOLDER) / (now + mode + ".state"))) << now << mode;
}

TEST(GoldenState, SaysWhatItSaid) {
  for (const fs::path& path : golden_files())
    EXPECT_EQ(device::print_state(read(path)), text_of(read(fs::path(path).replace_extension(".txt"))))
        << path;
}

// Loads into an adapter without a client: addresses are guest-physical, and are translated only when they are
// used.
TEST(GoldenState, IsLoadedAndGoesOn) {
  for (const fs::path& path : golden_files()) {
    if (doorbells_of(path) == DoorbellMode::kMapped && !kHostIsX86) continue;
    Testbench bench(options(doorbells_of(path)));
    device::Adapter& adapter = bench.adapter(0);
    const SavedBytes bytes = read(path);
    state::Reader reader(bytes);
    const auto pci = adapter.load(reader, bench.now());
    ASSERT_TRUE(pci) << path << ": " << pci.error().message;
    EXPECT_EQ(pci->msix_table[47], 47) << path;
    const device::AdapterInfo info = adapter.info();
    EXPECT_EQ(info.state, device::AdapterState::kActive) << path;
    EXPECT_EQ(info.gids.size(), 2u) << path;
    EXPECT_EQ(info.objects.qps, 4u) << path;
    EXPECT_EQ(info.objects.mrs, 4u) << path;
    adapter.resume();
    EXPECT_TRUE(bench.run()) << path;
    bench.advance(std::chrono::seconds(10));
  }
}

// The kinds of records of a printed state, and the fields of each in order, regardless of their values and
// number.
std::vector<std::string> format_of(const std::string& text) {
  std::vector<std::string> format;
  std::string record;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("record")) record = line;
    const std::string field = line.substr(0, line.find_first_of(line.starts_with("  ") ? "[ " : "\n", 2));
    const std::string named = line.starts_with("  ") ? record + field : record;
    if (std::ranges::find(format, named) == format.end()) format.push_back(named);
  }
  return format;
}

// Changed fields without a changed version of the record would be a silent change of the format.
TEST(GoldenState, HasTheFormatOfThisVersion) {
  for (const DoorbellMode doorbells : {DoorbellMode::kTrapped, DoorbellMode::kMapped}) {
    if (doorbells == DoorbellMode::kMapped && !kHostIsX86) continue;
    const std::string name = std::string("v") + PVRDMA_VERSION + "_" + std::string(to_text(doorbells));
    const SavedBytes bytes = Saved(doorbells).bytes();
    if (const char* folder = std::getenv("PVRDMA_WRITE_STATE"); folder != nullptr) {
      write(fs::path(folder) / (name + ".state"), text_of(bytes));
      write(fs::path(folder) / (name + ".txt"), device::print_state(bytes));
    }
    EXPECT_EQ(format_of(device::print_state(bytes)),
              format_of(text_of(read(fs::path(GOLDEN_FOLDER) / (name + ".txt")))));
  }
}

}  // namespace
}  // namespace pvrdma::test
