// Budgets of an adapter. A refusal names the exhausted budget. A rate slows the adapter, but nothing fails. A
// neighbour is not affected (pvrdmad.toml(5)).
#include <atomic>
#include <thread>

#include "device_test.h"
#include "verbs/host_account.h"

namespace pvrdma::test {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20;
constexpr int kEnomem = 12;

TestbenchOptions with(const Budgets& budgets, std::uint64_t ram_bytes = 64 * kMib,
                      verbs::HostAccount* host = nullptr) {
  TestbenchOptions options{.budgets = budgets, .host = host};
  options.driver.ram.size_bytes = ram_bytes;
  return options;
}

Budgets few_objects() {
  Budgets budgets = Budgets::none();
  budgets.qps = 8;
  budgets.cqs = 6;
  budgets.srqs = 2;
  budgets.mrs = 5;
  return budgets;
}

class BudgetsTest : public DeviceTest {
 protected:
  explicit BudgetsTest(const TestbenchOptions& options) : DeviceTest(options) {}

  // Makes objects until one is refused. Returns them.
  template <typename Make>
  static auto fill(Make make) {
    std::vector<decltype(must(make()))> all;
    for (int i = 0; i < 1000; ++i) {
      auto made = make();
      if (!made) {
        EXPECT_EQ(made.error().code, kEnomem) << made.error().message;
        return all;
      }
      all.push_back(std::move(*made));
    }
    ADD_FAILURE() << "nothing was refused";
    return all;
  }
  BudgetUse use(std::uint32_t index, Budget budget) {
    return host_.info(index).budgets[static_cast<std::size_t>(budget)];
  }
  // Checks that a correct guest can still work.
  void expect_served(std::uint32_t index) {
    auto pd = must(driver::ProtectionDomain::create(device(index).kernel()));
    auto cq = must(driver::CompletionQueue::create(device(index).kernel(), 4));
    auto buffer = must(device(index).ram().allocate(64 << 10));
    EXPECT_TRUE(driver::MemoryRegion::of_buffer(*pd, *buffer, 1));
    EXPECT_TRUE(driver::QueuePair::create(*pd, {.send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 1}));
  }
};

class BudgetObjects : public BudgetsTest {
 protected:
  BudgetObjects() : BudgetsTest(with(few_objects())) {}
};

TEST_F(BudgetObjects, the_guest_is_told_what_it_may_have) {
  EXPECT_EQ(device(0).caps().max_qp, 8u);
  EXPECT_EQ(device(0).caps().max_cq, 6u);
  EXPECT_EQ(device(0).caps().max_srq, 2u);
  EXPECT_EQ(device(0).caps().max_mr, 5u);
}

TEST_F(BudgetObjects, each_refusal_names_its_budget_and_is_counted) {
  auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  auto cq = must(driver::CompletionQueue::create(device(0).kernel(), 4));
  auto buffer = must(device(0).ram().allocate(4096));
  LogCapture log;
  const auto mrs = fill([&] { return driver::MemoryRegion::of_buffer(*pd, *buffer, 1); });
  const auto qps = fill([&] {
    return driver::QueuePair::create(*pd, {.send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 1});
  });
  const auto srqs = fill([&] { return driver::SharedReceiveQueue::create(*pd); });
  const auto cqs = fill([&] { return driver::CompletionQueue::create(device(0).kernel(), 4); });
  const std::string lines = log.text();
  for (const char* line : {"command CREATE_MR refused: its budget of 5 MRs is used up (budgets.mrs)",
                           "command CREATE_QP refused: its budget of 8 QPs is used up (budgets.qps)",
                           "command CREATE_SRQ refused: its budget of 2 SRQs is used up (budgets.srqs)",
                           "command CREATE_CQ refused: its budget of 6 CQs is used up (budgets.cqs)"}) {
    EXPECT_NE(lines.find(line), std::string::npos) << line << " is not in:\n" << lines;
  }
  for (const Budget budget : {Budget::kMrs, Budget::kQps, Budget::kSrqs, Budget::kCqs}) {
    EXPECT_EQ(use(0, budget).refused, 1u) << to_text(budget);
  }
  EXPECT_EQ(use(0, Budget::kMrs).use, 5u);
  EXPECT_EQ(use(0, Budget::kMrs).limit, 5u);
  expect_served(1);
}

class BudgetOnePage : public BudgetsTest {
 protected:
  BudgetOnePage() : BudgetsTest(with(Budgets::none(), 16 * kMib)) {}
};

// A guest names the same memory many times. The daemon would have to keep a list of its pages each time.
TEST_F(BudgetOnePage, cannot_be_named_more_often_than_the_ram_is_large) {
  auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  auto buffer = must(device(0).ram().allocate(4 * kMib));
  LogCapture log;
  {
    const auto mrs = fill([&] { return driver::MemoryRegion::of_buffer(*pd, *buffer, 1); });
    EXPECT_EQ(mrs.size(), 16u) << "four times 16 MiB";
    EXPECT_NE(
        log.text().find("CREATE_MR refused: its limit of 64 MiB named by MRs, 4 times its RAM, is used up"),
        std::string::npos);
    EXPECT_EQ(use(0, Budget::kRegistered).use, 64u);
    EXPECT_EQ(use(0, Budget::kRegistered).limit, 64u);
    auto cqs = fill([&] { return driver::CompletionQueue::create(device(0).kernel(), 1 << 14); });
    EXPECT_LE(cqs.size(), 64u) << "257 pages each";
    expect_served(1);
  }
  EXPECT_EQ(use(0, Budget::kRegistered).use, 0u);
  EXPECT_EQ(use(0, Budget::kRings).use, 0u);
  EXPECT_TRUE(driver::MemoryRegion::of_buffer(*pd, *buffer, 1));
}

class BudgetTotals : public BudgetsTest {
 protected:
  BudgetTotals() : BudgetsTest(with(Budgets::none(), 128 * kMib, &account_)) {}

  static TotalBudgets little() {
    TotalBudgets totals;
    totals.registered_mib = 400;
    return totals;
  }
  // Static, so that it outlives the host, which the base class makes.
  static inline verbs::HostAccount account_{little()};
};

TEST_F(BudgetTotals, what_one_adapter_takes_leaves_its_neighbour_a_share) {
  auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  auto buffer = must(device(0).ram().allocate(4 * kMib));
  LogCapture log;
  const auto mrs = fill([&] { return driver::MemoryRegion::of_buffer(*pd, *buffer, 1); });
  EXPECT_EQ(mrs.size(), 75u) << "three quarters of 400 MiB";
  EXPECT_NE(log.text().find("(budgets.total_registered_mib)"), std::string::npos);
  expect_served(1);
}

Budgets little_ram() {
  Budgets budgets = Budgets::none();
  budgets.mapped_mib = 64;
  return budgets;
}

class BudgetMappedRam : public BudgetsTest {
 protected:
  BudgetMappedRam() : BudgetsTest(with(little_ram(), 65 * kMib)) {}
};

TEST_F(BudgetMappedRam, beyond_its_budget_is_refused_to_the_vmm) {
  LogCapture log;
  const auto opened =
      driver::Device::open(must(driver::VfioUserBus::connect(host_.socket_path(0))), options_.driver);
  EXPECT_FALSE(opened);
  EXPECT_NE(log.text().find("adapter test-0's budget (budgets.mapped_mib) allows 64 MiB"), std::string::npos);
  EXPECT_EQ(use(0, Budget::kMapped).use, 0u);
  EXPECT_EQ(use(0, Budget::kMapped).refused, 1u);
}

Budgets slow() {
  Budgets budgets = Budgets::none();
  budgets.commands_per_s = 1000;
  budgets.doorbells_per_s = 10'000;
  return budgets;
}

class BudgetRates : public BudgetsTest {
 protected:
  BudgetRates() : BudgetsTest(with(slow())) {}
};

// The driver is slowed to its rate, and every command succeeds. Its neighbour is not slowed.
TEST_F(BudgetRates, a_driver_over_its_rate_of_commands_is_slowed_and_never_failed) {
  device(1);
  driver::Device& a = device(0);
  const std::uint64_t before = host_.info(0).device_counters.commands;
  const Instant began = Instant::now();
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::thread busy([&] {
    while (!stop) failed += a.query_port() ? 0 : 1;
  });
  EXPECT_TRUE(eventually([&] { return use(0, Budget::kCommands).refused != 0; }));
  expect_served(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const std::uint64_t executed = host_.info(0).device_counters.commands - before;
  const double seconds = static_cast<double>((Instant::now() - began).count()) / 1e9;
  stop = true;
  busy.join();
  EXPECT_EQ(failed, 0);
  EXPECT_LE(static_cast<double>(executed), 2000 + seconds * 1000 + 1) << "burst and rate";
  EXPECT_EQ(use(1, Budget::kCommands).refused, 0u);
}

TEST_F(BudgetRates, a_driver_over_its_rate_of_doorbells_is_slowed_and_never_failed) {
  {
    auto raw = must(vfio_user::Client::connect(host_.socket_path(0)));
    const std::array<std::uint32_t, 16> line{};  // the most that a processor stores at once
    const std::uint64_t before = host_.info(0).device_counters.doorbells;
    const Instant began = Instant::now();
    while (use(0, Budget::kDoorbells).refused < 100) {
      ASSERT_TRUE(raw->region_write(2, 0, std::as_bytes(std::span(line))));
    }
    const std::uint64_t rung = host_.info(0).device_counters.doorbells - before;
    const double seconds = static_cast<double>((Instant::now() - began).count()) / 1e9;
    EXPECT_LE(static_cast<double>(rung), 20'000 + seconds * 10'000 + 16);
  }
  ASSERT_TRUE(eventually([&] { return !host_.info(0).connected; }));
  RcEndpoint a(device(0), gid_of(0));
  RcEndpoint b(device(1), gid_of(1));
  must(connect(a, b));
  const Sge sge = a.sge(0, 64);
  ASSERT_TRUE(a.qp->post_send(wr::write(1, one(sge), b.remote())).ok());
  EXPECT_TRUE(await_one(*a.send_cq).ok());
}

TEST_F(BudgetRates, a_vmm_that_leaves_while_it_is_held_is_gone) {
  auto raw = must(vfio_user::Client::connect(host_.socket_path(0)));
  LogCapture log;
  const std::uint32_t request = 0;
  while (use(0, Budget::kCommands).refused == 0) {
    ASSERT_TRUE(raw->region_write(1, static_cast<std::uint64_t>(abi::Register::kRequest),
                                  std::as_bytes(std::span(&request, 1))));
  }
  raw.reset();
  EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
  EXPECT_NE(
      log.text().find("slowed: it exceeds its budget of 1000 commands a second (budgets.commands_per_s)"),
      std::string::npos);
}

}  // namespace
}  // namespace pvrdma::test
