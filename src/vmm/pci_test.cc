#include "vmm/pci.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "vmm/fake_ports.h"
#include "vmm/fake_qemu.h"

namespace pvrdma::vmm {
namespace {

Json device(int bus, int slot, int function, int device_id = 0x0820) {
  return {{"bus", bus},
          {"slot", slot},
          {"function", function},
          {"id", {{"vendor", 0x15ad}, {"device", device_id}}}};
}
Json bus_of(const std::vector<Json>& devices) {
  return {{"bus", 0}, {"devices", devices}};
}

class PciTest : public testing::Test {
 protected:
  PciTest() { ports_.address = 0x80001234; }
  Result<PciPlace> find(Json buses) {
    buses_ = std::move(buses);
    return find_device(*monitor_);
  }
  Result<void> restore_here(const std::function<Result<void>()>& write_table) {
    return restore(*monitor_, {0, 0x10, 1}, image_, write_table);
  }

  Json buses_;
  std::string state_ = "paused";
  FakePorts ports_;
  std::string loading_;  // the line after which QEMU loads another address
  std::string without_;  // the command that the monitor does not have
  PciImage image_;
  FakeQemu qemu_{testing::TempDir() + "pci_test_" + std::to_string(::getpid()) + ".qmp",
                 [this](const std::string& command, const Json& arguments) -> std::optional<Json> {
                   if (command == "query-pci") return FakeQemu::returning(buses_);
                   if (command == "query-status") return FakeQemu::returning({{"status", state_}});
                   const auto line = arguments.at("command-line").get<std::string>();
                   if (!without_.empty() && line.starts_with(without_))
                     return FakeQemu::returning("unknown command: '" + without_ + "'");
                   const std::string printed = ports_.answer(line);
                   if (line == loading_) ports_.address = 0x80000010;
                   return FakeQemu::returning(printed);
                 }};
  std::unique_ptr<Monitor> monitor_ =
      Monitor::connect(testing::TempDir() + "pci_test_" + std::to_string(::getpid()) + ".qmp", Instant::now())
          .value();
};

TEST_F(PciTest, FindsTheDeviceWhereverItIs) {
  EXPECT_EQ(find({bus_of({device(0, 2, 0, 0x07b0), device(0, 16, 1)})}).value(), (PciPlace{0, 16, 1}));
  Json bridge = device(0, 3, 0, 1);
  bridge["pci_bridge"] = bus_of({device(5, 31, 7)});
  EXPECT_EQ(find({bus_of({bridge})}).value(), (PciPlace{5, 31, 7}));
}

TEST_F(PciTest, WantsExactlyOne) {
  EXPECT_EQ(find({bus_of({device(0, 2, 0, 0x07b0)})}).error().code, ENODEV);
  EXPECT_EQ(find({bus_of({device(0, 2, 0), device(0, 3, 0)})}).error().code, ENOTUNIQ);
}

TEST_F(PciTest, MakesNothingOfNonsense) {
  for (const Json& nonsense : {Json(7), Json({7}), Json({{{"devices", 7}}}), Json({bus_of({7, {{"id", 7}}})}),
                               Json({bus_of({device(0, 32, 0)})}), Json({bus_of({device(-1, 2, 0)})})}) {
    EXPECT_EQ(find(nonsense).error().code, ENODEV) << nonsense;
  }
}

TEST_F(PciTest, WritesWhatIsTheGuestsInOrder) {
  const auto put = [this](std::size_t offset, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      image_.config[offset + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value >> (8 * i));
  };
  put(0x04, 0x0402, 2);
  put(0x0c, 0x2010, 2);
  put(0x10, 0xfe000000, 4);
  put(0x14, 0xfe010000, 4);
  put(0x18, 0xf0000004, 4);
  put(0x1c, 0x8, 4);
  put(0x3c, 0x0b, 1);
  put(0x42, 0x8002, 2);
  image_.msix_table.emplace();
  std::size_t written_before = 0;
  ASSERT_TRUE(restore_here([&]() -> Result<void> {
    written_before = qemu_.commands().size();
    return {};
  }));
  const std::vector<std::string> expected = {"query-status",
                                             "i /w 0xcf8",
                                             "o /w 0xcf8 0x80008110",
                                             "o /w 0xcfc 0xfe000000",
                                             "o /w 0xcf8 0x80008114",
                                             "o /w 0xcfc 0xfe010000",
                                             "o /w 0xcf8 0x80008118",
                                             "o /w 0xcfc 0xf0000004",
                                             "o /w 0xcf8 0x8000811c",
                                             "o /w 0xcfc 0x8",
                                             "o /w 0xcf8 0x8000810c",
                                             "o /h 0xcfc 0x2010",
                                             "o /w 0xcf8 0x8000813c",
                                             "o /b 0xcfc 0xb",
                                             "o /w 0xcf8 0x80008104",
                                             "o /h 0xcfc 0x406",
                                             "o /w 0xcf8 0x80008140",
                                             "o /h 0xcfe 0x8002",
                                             "o /w 0xcf8 0x80008104",
                                             "o /h 0xcfc 0x402",
                                             "i /w 0xcf8",
                                             "o /w 0xcf8 0x80001234"};
  EXPECT_EQ(qemu_.commands(), expected);
  EXPECT_EQ(written_before, 16u) << "the table comes when memory is decoded, and before vectors are enabled";
}

TEST_F(PciTest, DisablesVectors) {
  ASSERT_TRUE(disable_vectors(*monitor_, {0, 0x10, 1}));
  EXPECT_EQ(qemu_.commands(),
            (std::vector<std::string>{"query-status", "i /w 0xcf8", "o /w 0xcf8 0x80008140", "o /h 0xcfe 0x0",
                                      "i /w 0xcf8", "o /w 0xcf8 0x80001234"}));
}

TEST_F(PciTest, AnAddressThatQemuLoadsMeanwhileIsLeftAndNamed) {
  loading_ = "o /h 0xcfe 0x0";
  const auto disabled = disable_vectors(*monitor_, {0, 0x10, 1});
  ASSERT_FALSE(disabled);
  EXPECT_EQ(disabled.error().code, EBUSY);
  EXPECT_NE(disabled.error().message.find("to 0x80000010 while it was 0x80008140"), std::string::npos);
  EXPECT_EQ(ports_.address, 0x80000010);
}

TEST_F(PciTest, WithoutATableNoneIsWritten) {
  ASSERT_TRUE(restore_here([]() -> Result<void> { return fail("not to be called"); }));
}

TEST_F(PciTest, RefusesAVmThatRunsAndPutsTheAddressBackAfterAFailure) {
  state_ = "running";
  EXPECT_EQ(restore_here(nullptr).error().kind, ErrorKind::kConflict);
  state_ = "paused";
  image_.msix_table.emplace();
  EXPECT_EQ(restore_here([]() -> Result<void> { return fail("no table"); }).error().message, "no table");
  EXPECT_EQ(qemu_.commands().back(), "o /w 0xcf8 0x80001234");
}

TEST_F(PciTest, AMonitorWithoutPortsIsNamed) {
  without_ = "o";
  EXPECT_EQ(
      restore_here(nullptr).error().message,
      "QEMU's monitor does not write ports: \"o /w 0xcf8 0x80008110\" printed \"unknown command: 'o'\"");
  without_ = "i";
  EXPECT_EQ(restore_here(nullptr).error().message,
            "QEMU's monitor does not read ports: \"i /w 0xcf8\" printed \"unknown command: 'i'\"");
}

}  // namespace
}  // namespace pvrdma::vmm
