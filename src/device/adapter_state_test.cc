// Saving and loading an adapter (ADR 16). A loaded adapter continues where it was, whatever its driver was
// doing. Impossible states are refused completely.
#include <cerrno>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "device/capabilities.h"
#include "device/describe.h"
#include "device/fake_doorbells.h"
#include "device/fake_guest.h"
#include "device/print_state.h"
#include "guestmem/sigbus.h"
#include "support/saved_stream.h"

namespace pvrdma::device {
namespace {

using abi::Command;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::changed;
using test::FakeGuest;
using test::kActivate;
using test::kSend;
using test::kUnknown;
using ::testing::HasSubstr;
using ::testing::Not;
using Bytes = test::SavedBytes;

class AdapterStateFixture : public testing::Test {
 protected:
  explicit AdapterStateFixture(const AdapterConfig& config = test::some_adapter()) : guest_(config) {
    log::set_level(log::Level::kError);
  }
  ~AdapterStateFixture() override { log::set_level(log::Level::kInfo); }

  AdapterState state() { return guest_.adapter().info().state; }
  std::uint32_t async_tail() { return guest_.load<abi::RingState>(guest_.async.at[0]).rx.prod_tail; }
  void take_events(std::uint32_t consumer_index) {
    auto ring = guest_.load<abi::RingState>(guest_.async.at[0]);
    ring.rx.cons_head = consumer_index;
    guest_.store(guest_.async.at[0], ring);
  }
  void post_link_events(int count) {
    const bool up = guest_.adapter().info().link_up;
    for (int i = 0; i < count; ++i) guest_.adapter().set_link((i % 2 == 0) != up);
  }
  // Makes GIDs, objects of all kinds, and waiting events.
  void live_a_little() {
    guest_.bring_up();
    abi::CreateBindRequest bind{};
    bind.gid_type = 2;
    bind.vlan = 0xfff;
    bind.new_gid.raw[15] = 7;
    ASSERT_EQ(guest_.command(Command::kCreateBind, bind), 0u);
    guest_.create_uc(5);
    const std::uint32_t pd = guest_.create_pd();
    const FakeGuest::Cq cq = guest_.create_cq();
    ASSERT_EQ(guest_.command(Command::kCreateQp, guest_.qp_request(pd, cq.handle, guest_.pages(3))), 0u);
    post_link_events(515);
  }
  // Why an adapter like the guest's refuses the stream.
  std::string refused(const Bytes& stream) {
    const auto fresh = guest_.successor();
    return guest_.load(*fresh, stream);
  }

  FakeGuest guest_;
};
using AdapterStateTest = AdapterStateFixture;

TEST_F(AdapterStateTest, AnAdapterNobodyUsedIsSavedAndLoaded) {
  guest_.replace();
  EXPECT_EQ(state(), AdapterState::kDetached);
  guest_.bring_up();
  guest_.create_pd();
}

TEST_F(AdapterStateTest, ALoadedAdapterIsSavedAsTheSameBytes) {
  live_a_little();
  const Bytes stream = guest_.save();
  const AdapterInfo before = guest_.adapter().info();
  const auto fresh = guest_.successor();
  ASSERT_EQ(guest_.load(*fresh, stream), "");
  EXPECT_EQ(guest_.save(*fresh), stream);
  const AdapterInfo after = fresh->info();
  EXPECT_EQ(after.state, AdapterState::kActive);
  EXPECT_EQ(after.objects.qps, 1u);
  EXPECT_EQ(after.gids.size(), 1u);
  EXPECT_EQ(after.driver_version, before.driver_version);
  EXPECT_EQ(after.guest_os, before.guest_os);
  EXPECT_EQ(after.device_counters.commands, before.device_counters.commands);
  EXPECT_EQ(after.device_counters.interrupts, before.device_counters.interrupts);
  EXPECT_EQ(after.device_counters.events_held_back, 3u);
}

TEST_F(AdapterStateTest, AnAddressThatIsHalfWrittenIsCompletedThere) {
  guest_.connect();
  guest_.set_command(PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
  guest_.prepare_region();
  guest_.store(guest_.region_address, guest_.region);
  guest_.write_register(abi::Register::kDsrLow, static_cast<std::uint32_t>(guest_.region_address));
  guest_.replace();
  guest_.write_register(abi::Register::kDsrHigh, 0);
  EXPECT_EQ(guest_.read_register(abi::Register::kErr), 0u);
  EXPECT_EQ(state(), AdapterState::kAttached);
  guest_.replace();
  EXPECT_EQ(guest_.control(kActivate), 0u);
  guest_.replace();
  guest_.create_pd();
  EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 1u);
}

TEST_F(AdapterStateTest, RegistersReadAsBefore) {
  guest_.connect();
  guest_.write_register(abi::Register::kMacLow, 0x01020304);
  guest_.write_register(abi::Register::kMacHigh, 0x0506);
  guest_.write_register(abi::Register::kCtl, kActivate);  // no region is attached
  guest_.replace();
  EXPECT_EQ(guest_.read_register(abi::Register::kMacLow), 0x01020304u);
  EXPECT_EQ(guest_.read_register(abi::Register::kMacHigh), 0x0506u);
  EXPECT_EQ(guest_.read_register(abi::Register::kErr), static_cast<std::uint32_t>(ENODEV));
}

TEST_F(AdapterStateTest, WhatWasSignalledLastIsSignalledAgainOnce) {
  guest_.bring_up();
  guest_.adapter().set_link(false);
  guest_.interrupts(abi::Vector::kAsyncEvent);
  guest_.replace();
  EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 0u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kAsyncEvent), 1u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kNotification), 1u);
}

TEST_F(AdapterStateTest, WithoutAnActiveDriverNothingIsSignalled) {
  guest_.connect();
  guest_.prepare_region();
  guest_.load_region();
  guest_.replace();
  EXPECT_EQ(guest_.interrupts(abi::Vector::kAsyncEvent), 0u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kNotification), 0u);
}

TEST_F(AdapterStateTest, AMaskedVectorFiresWhenTheMaskGoes) {
  guest_.bring_up();
  guest_.write_register(abi::Register::kImr, abi::kInterruptResponse | abi::kInterruptAsyncEvent);
  guest_.create_pd();
  guest_.replace();
  EXPECT_EQ(guest_.read_register(abi::Register::kImr), abi::kInterruptResponse | abi::kInterruptAsyncEvent);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 0u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kAsyncEvent), 0u);
  guest_.write_register(abi::Register::kImr, abi::kImrAllEnabled);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 1u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kAsyncEvent), 1u) << "as every adapter that goes on";
}

TEST_F(AdapterStateTest, EventsThatWaitComeInOrder) {
  guest_.bring_up();
  post_link_events(515);
  ASSERT_EQ(async_tail(), 512u);
  guest_.adapter().run(guest_.clock.now());
  const Instant due = guest_.adapter().next_deadline();
  guest_.replace();
  guest_.adapter().engine().run(guest_.clock.now());
  EXPECT_EQ(guest_.adapter().next_deadline(), due);
  take_events(512);
  guest_.clock.set(due);
  guest_.adapter().on_time(due);
  EXPECT_EQ(async_tail(), 515u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto event = guest_.load<abi::AsyncEvent>(guest_.async.at[1] + i * sizeof(abi::AsyncEvent));
    EXPECT_EQ(event.type, i % 2 == 0 ? 10u : 9u) << "down, up, down";
  }
  EXPECT_EQ(guest_.adapter().next_deadline(), Instant::never());
}

TEST_F(AdapterStateTest, TheLinkIsAsTheGuestSawItUntilItIsToldOtherwise) {
  guest_.bring_up();
  guest_.adapter().set_link(false);
  guest_.replace();
  EXPECT_FALSE(guest_.adapter().info().link_up);
  guest_.adapter().set_link(true);
  EXPECT_EQ(async_tail(), 2u);
}

TEST_F(AdapterStateTest, AFailedAdapterStaysFailed) {
  ASSERT_TRUE(guestmem::install_sigbus_handler());
  guest_.bring_up();
  guest_.truncate_ram(4096);
  guest_.write_register(abi::Register::kRequest, 0);  // accesses the command slot, which is gone
  guest_.adapter().run(guest_.clock.now());
  ASSERT_EQ(state(), AdapterState::kFailed);
  guest_.truncate_ram(4u << 20);
  guest_.replace();
  EXPECT_EQ(state(), AdapterState::kFailed);
  EXPECT_EQ(guest_.write32(1, 0x1c, 0), EIO);
  guest_.adapter().disconnected("gone");
  guest_.bring_up();
  EXPECT_EQ(state(), AdapterState::kActive);
}

TEST_F(AdapterStateTest, ADetachedAdapterTakesTheNextDriver) {
  live_a_little();
  guest_.control(static_cast<std::uint32_t>(abi::Ctl::kReset));
  guest_.replace();
  EXPECT_EQ(state(), AdapterState::kDetached);
  take_events(0);
  guest_.load_region();
  EXPECT_EQ(guest_.control(kActivate), 0u);
  guest_.create_pd();
}

// --- Refusals ---

TEST_F(AdapterStateTest, AnotherAdapterIsRefused) {
  live_a_little();
  const Bytes stream = guest_.save();
  const auto refusal = [&](auto change) {
    AdapterConfig config = test::some_adapter();
    change(config);
    const auto other = Adapter::create(config, guest_.port, guest_.clock).value();
    return guest_.load(*other, stream);
  };
  EXPECT_THAT(refusal([](AdapterConfig& c) { c.name = "other"; }),
              HasSubstr("name is \"other\" here and \"test\" in the saved state"));
  EXPECT_THAT(refusal([](AdapterConfig& c) { c.mac.raw[5] = 9; }),
              HasSubstr("mac is 005056010209 here and 005056010203"));
  EXPECT_THAT(refusal([](AdapterConfig& c) { c.hardware_version = HardwareVersion::k17; }),
              HasSubstr("hardware_version is 17 here and 14"));
  EXPECT_THAT(refusal([](AdapterConfig& c) { c.roce = RoceVersion::kV1; }),
              HasSubstr("roce is 1 here and 2"));
  EXPECT_THAT(refusal([](AdapterConfig& c) { c.profile = Profile::kEsxi; }), HasSubstr("profile is 1 here"));
  EXPECT_THAT(refusal([](AdapterConfig& c) { c.mtu = NetworkMtu{9000}; }), HasSubstr("mtu is 5 here and 3"));
  EXPECT_THAT(refusal([](AdapterConfig& c) { c.budgets.qps = 10; }), HasSubstr("max_qp is 10 here and"));
  if (kHostIsX86) {
    EXPECT_THAT(refusal([](AdapterConfig& c) { c.doorbells = DoorbellMode::kMapped; }),
                HasSubstr("doorbells is 1 here and 0"));
  }
  EXPECT_EQ(refusal([](AdapterConfig& c) { c.budgets.commands_per_s = 10; }), "") << "the host's own";
}

// Between the numbers of hardware versions there are some that no adapter has.
TEST_F(AdapterStateTest, AnIdentityOfNoHardwareVersionIsRefused) {
  for (const std::uint32_t number : {13U, 14U, 15U, 16U, 17U, 18U}) {
    SavedIdentity identity = identity_of(test::some_adapter()).value();
    identity.hardware_version = static_cast<HardwareVersion>(number);
    state::Writer writer;
    writer.begin(kIdentityRecord);
    describe(writer, identity);
    writer.end();
    const Bytes stream = writer.finish();
    state::Reader reader(stream);
    const auto read = read_identity(reader);
    EXPECT_EQ(read.has_value(), number != 15 && number != 16) << number;
    if (read) continue;
    EXPECT_THAT(read.error().message, HasSubstr(fmt::format("no adapter has hardware version {}", number)));
  }
}

TEST_F(AdapterStateTest, AnAdapterInUseStaysAsItIs) {
  live_a_little();
  const Bytes stream = guest_.save();
  EXPECT_THAT(guest_.load(guest_.adapter(), stream), HasSubstr("in use"));
  EXPECT_EQ(guest_.save(), stream);
}

TEST_F(AdapterStateTest, AGidThatIsAnothersLeavesNothingBound) {
  live_a_little();
  const Bytes stream = guest_.save();
  const auto fresh = guest_.successor();
  const Bytes before = guest_.save(*fresh);
  guest_.port.accepts_gids = false;
  EXPECT_THAT(guest_.load(*fresh, stream), HasSubstr("a GID cannot be bound"));
  EXPECT_EQ(guest_.save(*fresh), before);
  EXPECT_TRUE(fresh->info().gids.empty());
  guest_.port.accepts_gids = true;
  EXPECT_EQ(guest_.load(*fresh, stream), "") << "it is as before";
}

TEST_F(AdapterStateTest, WhatIsFoundBehindTheEngineIsRefusedToo) {
  live_a_little();
  const Bytes stream = guest_.save();
  std::vector<Bytes> records = test::records_of(stream);
  records.push_back(records.front());
  const auto fresh = guest_.successor();
  const Bytes before = guest_.save(*fresh);
  const std::uint64_t unbound = guest_.port.unbound_gids;
  EXPECT_THAT(guest_.load(*fresh, test::stream_of(records)), HasSubstr("more than an adapter"));
  EXPECT_EQ(print_state(guest_.save(*fresh)), print_state(before));
  EXPECT_EQ(guest_.port.unbound_gids, unbound) << "no GID was bound";
  EXPECT_EQ(guest_.load(*fresh, stream), "");
}

TEST_F(AdapterStateTest, RecordsThatAreMissingOrOutOfOrderAreRefused) {
  live_a_little();
  const std::vector<Bytes> records = test::records_of(guest_.save());
  for (std::size_t gone = 0; gone < records.size(); ++gone) {
    std::vector<Bytes> others = records;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(gone));
    const bool may_be_gone = test::kind_of(records[gone]) == verbs::kGidRecord;  // one GID less is valid
    EXPECT_EQ(refused(test::stream_of(others)).empty(), may_be_gone) << gone;
    if (gone + 1 == records.size()) continue;
    others.insert(others.begin() + static_cast<std::ptrdiff_t>(gone) + 1, records[gone]);
    EXPECT_NE(refused(test::stream_of(others)), "") << gone;
  }
}

TEST_F(AdapterStateTest, ANewerRecordIsRefusedUnlessItMayBeSkipped) {
  live_a_little();
  std::vector<Bytes> records = test::records_of(guest_.save());
  Bytes news = records.front();
  news[0] = std::byte{0x77};
  test::make_checksum_right(news);
  records.insert(records.begin() + 3, news);
  EXPECT_THAT(refused(test::stream_of(records)), HasSubstr("missing, or out of order"));
  news[2] = std::byte{0};  // marks the record as optional
  news[4] = std::byte{9};
  test::make_checksum_right(news);
  records[3] = news;
  EXPECT_EQ(refused(test::stream_of(records)), "");
  records[4][4] = std::byte{2};
  test::make_checksum_right(records[4]);
  EXPECT_THAT(refused(test::stream_of(records)), HasSubstr("version 2 is not known"));
}

TEST_F(AdapterStateTest, ImpossibleValuesAreRefused) {
  live_a_little();
  const Bytes good = guest_.save();
  const auto driver = [&](auto change) { return refused(changed<SavedDriver>(good, kDriverRecord, change)); };
  EXPECT_THAT(driver([](SavedDriver& d) { d.region.driver_version = 1; }), HasSubstr("shared region"));
  EXPECT_THAT(driver([](SavedDriver& d) { d.region.command_slot += 8; }), HasSubstr("shared region"));
  EXPECT_THAT(driver([](SavedDriver& d) { d.region.response_slot += 8; }), HasSubstr("shared region"));
  EXPECT_THAT(driver([](SavedDriver& d) { d.region.uar_page_frame = 1ull << 40; }),
              HasSubstr("shared region"));
  EXPECT_THAT(driver([](SavedDriver& d) { d.region.async_pages.resize(1); }), HasSubstr("shared region"));
  EXPECT_THAT(driver([](SavedDriver& d) { d.region.notification_pages.clear(); }),
              HasSubstr("shared region"));
  EXPECT_THAT(driver([](SavedDriver& d) { d.state = AdapterState::kDetached; }),
              HasSubstr("events without a driver"));
  EXPECT_THAT(driver([](SavedDriver& d) { d.state = AdapterState::kAttached; }),
              HasSubstr("objects without an active driver"));

  const auto rings = [&](auto change) {
    return refused(changed<SavedEventRings>(good, kEventRingsRecord, change));
  };
  const std::string kRings = "the event rings' values are invalid";
  EXPECT_THAT(rings([](SavedEventRings& r) { r.async.own_index = 1024; }), HasSubstr(kRings));
  EXPECT_THAT(rings([](SavedEventRings& r) { r.notifications.own_index = 2048; }), HasSubstr(kRings));
  EXPECT_THAT(rings([](SavedEventRings& r) { r.pending_cqs = {1, 1}; }), HasSubstr(kRings));
  EXPECT_THAT(rings([](SavedEventRings& r) { r.pending_cqs = {200'000}; }), HasSubstr(kRings));
  EXPECT_THAT(rings([](SavedEventRings& r) { r.drain_from_cq = 200'000; }), HasSubstr(kRings));
  EXPECT_THAT(rings([](SavedEventRings& r) { r.retry_after_ns = 0; }), HasSubstr(kRings)) << "a busy loop";
  EXPECT_THAT(rings([](SavedEventRings& r) { r.held[0].type = 19; }), HasSubstr("type is 19"));
  EXPECT_EQ(rings([](SavedEventRings& r) { r.pending_cqs = {3, 5, 64}; }), "");

  EXPECT_THAT(refused(changed<SavedDoorbells>(good, kDoorbellsRecord,
                                              [](SavedDoorbells& d) { d.pages.push_back({.uar = 5}); })),
              HasSubstr("doorbell pages"));
  EXPECT_THAT(refused(changed<SavedInterrupts>(good, kInterruptsRecord,
                                               [](SavedInterrupts& i) { i.held_by_mask = 2; })),
              HasSubstr("held_by_mask is 2"));
}

TEST_F(AdapterStateTest, CutOffAnywhereIsRefused) {
  live_a_little();
  const Bytes stream = guest_.save();
  const auto fresh = guest_.successor();
  for (std::size_t kept = 0; kept < stream.size(); ++kept) {
    const Bytes part(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(kept));
    ASSERT_NE(guest_.load(*fresh, part), "") << kept;
  }
  EXPECT_EQ(guest_.load(*fresh, stream), "");
}

// An accepted state is complete, and the adapter works.
TEST_F(AdapterStateTest, NoByteMakesItCrash) {
  live_a_little();
  const auto fresh = guest_.successor();
  const Bytes before = guest_.save(*fresh);
  const Bytes good = guest_.save();
  std::size_t accepted = 0;
  test::for_each_flip(good, [&](const Bytes& stream) {
    if (guest_.load(*fresh, stream).empty()) {
      ++accepted;
      fresh->resume();
      fresh->run(guest_.clock.now());
      fresh->reset();
    }
    ASSERT_EQ(fresh->info().state == AdapterState::kDetached || fresh->info().state == AdapterState::kFailed,
              true);
    if (fresh->info().state == AdapterState::kFailed) fresh->disconnected("gone");
  });
  EXPECT_GT(accepted, 100u);
  EXPECT_EQ(guest_.load(*fresh, good), "");
}

// The old VMM may also have lost the interrupt of a response.
TEST_F(AdapterStateTest, RaisesTheVectorsOfWhatMayBeLost) {
  live_a_little();
  std::array<Fd, abi::kVectorCount> vectors;
  for (std::uint32_t vector = 0; vector < abi::kVectorCount; ++vector) {
    vectors[vector] = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    ASSERT_EQ(guest_.adapter().set_irq_eventfd(2, vector, Fd(::dup(vectors[vector].get()))), 0);
  }
  const auto raised_by = [&](Adapter::Vmm vmm) {
    guest_.adapter().resume(vmm);
    std::array<std::uint64_t, abi::kVectorCount> raised{};
    for (std::size_t vector = 0; vector < raised.size(); ++vector)
      static_cast<void>(::eventfd_read(vectors[vector].get(), &raised[vector]));
    return raised;
  };
  using Raised = std::array<std::uint64_t, abi::kVectorCount>;
  EXPECT_EQ(raised_by(Adapter::Vmm::kSame), (Raised{0, 1, 1}));
  EXPECT_EQ(raised_by(Adapter::Vmm::kAnother), (Raised{1, 1, 1}));
}

// --- PCI ---

TEST_F(AdapterStateTest, PciStateIsGivenBackAndNotApplied) {
  const std::uint16_t command = 0x0406;
  ASSERT_EQ(guest_.adapter().region_write(7, 4, std::as_bytes(std::span(&command, 1)), false), 0);
  MsixTable table{};
  table[17] = 0xfe;
  state::Writer writer;
  guest_.adapter().save(writer, table, guest_.clock.now());
  const Bytes stream = writer.finish();
  const auto fresh = guest_.successor();
  state::Reader reader(stream);
  const Result<PciState> saved = fresh->load(reader, guest_.clock.now());
  ASSERT_TRUE(saved);
  EXPECT_TRUE(saved->has_msix_table);
  EXPECT_EQ(saved->msix_table, table);
  EXPECT_EQ(saved->config[4], 0x06);
  EXPECT_THAT(difference(fresh->pci_state(table), *saved).value_or(""),
              HasSubstr("config_00 is ad152008000010000100800200000000 here and "
                        "ad152008060410000100800200000000 in the saved state"));
  EXPECT_EQ(difference(guest_.adapter().pci_state(table), *saved), std::nullopt);
  EXPECT_THAT(difference(guest_.adapter().pci_state(MsixTable{}), *saved).value_or(""),
              HasSubstr("msix_10 is"));
  EXPECT_THAT(difference(guest_.adapter().pci_state(std::nullopt), *saved).value_or(""),
              HasSubstr("has_msix_table is no here and yes"));
}

TEST_F(AdapterStateTest, IsPrintedFieldByField) {
  live_a_little();
  const std::string text = print_state(guest_.save());
  for (const char* line : {"name \"test\"", "mac 005056010203", "max_qp 32768", "config_00 ad15", "dsr_low ",
                           "state 2", "async_pages 4 pages, the first at ", "held[2]", "in_second ",
                           "commands ", "pending_cqs 0", "contexts[0]", "qpn 2"}) {
    EXPECT_THAT(text, HasSubstr(std::string("  ") + line));
  }
  EXPECT_THAT(text, Not(HasSubstr("refused")));
  Bytes cut = guest_.save();
  cut.resize(cut.size() / 2);
  EXPECT_THAT(print_state(cut), HasSubstr("refused"));
}

// --- Rates ---

class AdapterStateRateTest : public AdapterStateFixture {
 protected:
  AdapterStateRateTest() : AdapterStateFixture(limited()) {}
  static AdapterConfig limited() {
    AdapterConfig config = test::some_adapter();
    config.budgets.commands_per_s = 10;
    return config;
  }
};

TEST_F(AdapterStateRateTest, WhoIsOverItsRateIsOverItThere) {
  guest_.bring_up();
  while (guest_.adapter().held_until() == Instant{}) guest_.create_pd();
  const Instant until = guest_.adapter().held_until();
  const auto uses = guest_.adapter().info().budgets;
  guest_.clock.advance(milliseconds(1));
  guest_.replace();
  EXPECT_EQ(guest_.adapter().held_until(), until);
  const auto uses_there = guest_.adapter().info().budgets;
  EXPECT_EQ(uses_there.at(7).use, uses.at(7).use);
  EXPECT_EQ(uses_there.at(7).refused, uses.at(7).refused);
  guest_.clock.advance(seconds(10));
  guest_.replace();
  guest_.create_pd();
  EXPECT_EQ(guest_.adapter().held_until(), Instant{});
}

// --- Mapped doorbells ---

class AdapterStateMappedTest : public AdapterStateFixture {
 protected:
  AdapterStateMappedTest() : AdapterStateFixture(mapped()) {}
  static AdapterConfig mapped() {
    AdapterConfig config = test::some_adapter();
    config.doorbells = DoorbellMode::kMapped;
    return config;
  }
  void SetUp() override {
    if (!kHostIsX86) GTEST_SKIP() << "mapped doorbells need an x86 host";
    guest_.bring_up();
    guest_.create_uc(5);
    guest_.create_uc(900);
  }
  std::uint64_t rung() { return guest_.adapter().engine().counters().bad_doorbells; }
};

TEST_F(AdapterStateMappedTest, DoorbellsThatNobodySawAreFoundThere) {
  {
    test::DoorbellPages pages(guest_.adapter());
    pages.word(5, abi::UarWord::kQp) = kSend | kUnknown;
    pages.word(900, abi::UarWord::kCq) = kSend | kUnknown;
  }
  guest_.replace();
  EXPECT_TRUE(guest_.adapter().polls());
  EXPECT_TRUE(guest_.adapter().run(guest_.clock.now()));
  EXPECT_EQ(rung(), 2u);
  test::DoorbellPages pages(guest_.adapter());
  EXPECT_EQ(pages.word(5, abi::UarWord::kQp), 0u);
  pages.word(5, abi::UarWord::kQp) = kSend | kUnknown;
  EXPECT_TRUE(guest_.adapter().run(guest_.clock.now()));
  EXPECT_EQ(rung(), 3u);
}

TEST_F(AdapterStateMappedTest, PagesAreThoseOfTheContexts) {
  const Bytes good = guest_.save();
  const auto pages = [&](auto change) {
    return refused(changed<SavedDoorbells>(good, kDoorbellsRecord, change));
  };
  EXPECT_EQ(pages([](SavedDoorbells&) {}), "");
  EXPECT_THAT(pages([](SavedDoorbells& d) { d.pages.pop_back(); }), HasSubstr("doorbell pages"));
  EXPECT_THAT(pages([](SavedDoorbells& d) { d.pages.push_back(d.pages.back()); }),
              HasSubstr("doorbell pages"));
  EXPECT_THAT(pages([](SavedDoorbells& d) { d.pages.push_back({.uar = 1'000'000}); }),
              HasSubstr("doorbell pages"));
}

}  // namespace
}  // namespace pvrdma::device
