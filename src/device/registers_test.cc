#include "device/registers.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <string>

#include "device/adapter_log.h"

namespace pvrdma::device {
namespace {

struct RecordedActions final : RegisterActions {
  std::uint32_t load_shared_region(std::uint64_t address) override {
    loaded = address;
    return answer;
  }
  std::uint32_t activate() override { return note("activate"); }
  std::uint32_t unquiesce() override { return note("unquiesce"); }
  std::uint32_t reset_by_driver() override { return note("reset"); }
  std::uint32_t execute_command() override { return note("command"); }
  std::uint32_t note(const char* what) {
    last = what;
    return answer;
  }
  std::uint64_t loaded = 0;
  std::string last;
  std::uint32_t answer = 0;
};

class RegistersTest : public testing::Test {
 protected:
  std::uint32_t read(abi::Register which) {
    std::uint32_t value = 0;
    EXPECT_TRUE(
        registers_.read(static_cast<std::uint64_t>(which), std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }
  bool write(abi::Register which, std::uint32_t value) {
    return registers_.write(static_cast<std::uint64_t>(which), std::as_bytes(std::span(&value, 1)));
  }

  SteadyClock clock_;
  AdapterLog log_{"VM-01", clock_};
  Interrupts interrupts_{clock_, log_};
  RecordedActions actions_;
  Registers registers_{18, abi::Mac{{1, 2, 3, 4, 5, 6}}, interrupts_, actions_};
};

TEST_F(RegistersTest, VersionIsConstant) {
  EXPECT_EQ(read(abi::Register::kVersion), 18u);
  EXPECT_FALSE(write(abi::Register::kVersion, 99));
  EXPECT_EQ(read(abi::Register::kVersion), 18u);
}

TEST_F(RegistersTest, DsrHighTriggersWithBothHalves) {
  EXPECT_TRUE(write(abi::Register::kDsrLow, 0x8765'4000));
  EXPECT_EQ(actions_.loaded, 0u);
  EXPECT_TRUE(write(abi::Register::kDsrHigh, 0x12));
  EXPECT_EQ(actions_.loaded, 0x12'8765'4000u);
}

TEST_F(RegistersTest, ErrIsTheLastResult) {
  actions_.answer = 14;
  write(abi::Register::kRequest, 0);
  EXPECT_EQ(actions_.last, "command");
  EXPECT_EQ(read(abi::Register::kErr), 14u);
  EXPECT_EQ(read(abi::Register::kErr), 14u);
  actions_.answer = 0;
  write(abi::Register::kCtl, 0);
  EXPECT_EQ(actions_.last, "activate");
  EXPECT_EQ(read(abi::Register::kErr), 0u);
  write(abi::Register::kCtl, 1);
  EXPECT_EQ(actions_.last, "unquiesce");
  write(abi::Register::kCtl, 2);
  EXPECT_EQ(actions_.last, "reset");
  write(abi::Register::kCtl, 3);
  EXPECT_EQ(read(abi::Register::kErr), static_cast<std::uint32_t>(EINVAL));
  EXPECT_FALSE(write(abi::Register::kErr, 0));
  registers_.reset();
  EXPECT_EQ(read(abi::Register::kErr), 0u);
}

TEST_F(RegistersTest, MaskAndCausesAreTheInterrupts) {
  write(abi::Register::kImr, 0xffff'ffff);
  EXPECT_EQ(read(abi::Register::kImr), 0xffff'ffffu);
  interrupts_.raise(abi::Vector::kNotification);
  EXPECT_EQ(read(abi::Register::kIcr), 4u);
  EXPECT_EQ(read(abi::Register::kIcr), 0u);
}

TEST_F(RegistersTest, MacHoldsWhatIsWrittenUntilReset) {
  EXPECT_EQ(read(abi::Register::kMacLow), 0x0403'0201u);
  EXPECT_EQ(read(abi::Register::kMacHigh), 0x0605u);
  EXPECT_TRUE(write(abi::Register::kMacLow, 0x8765'4321));
  EXPECT_TRUE(write(abi::Register::kMacHigh, 0x1234));
  EXPECT_EQ(read(abi::Register::kMacLow), 0x8765'4321u);
  EXPECT_EQ(read(abi::Register::kMacHigh), 0x1234u);
  registers_.reset();
  EXPECT_EQ(read(abi::Register::kMacLow), 0x0403'0201u);
  EXPECT_EQ(read(abi::Register::kMacHigh), 0x0605u);
}

TEST_F(RegistersTest, WriteOnlyRegistersReadAllOnes) {
  for (const auto which :
       {abi::Register::kDsrLow, abi::Register::kDsrHigh, abi::Register::kCtl, abi::Register::kRequest})
    EXPECT_EQ(read(which), 0xffff'ffffu);
}

TEST_F(RegistersTest, OnlyAlignedDwordsOfRegistersThatExist) {
  std::array<std::byte, 8> buffer{};
  for (const std::size_t width : {1, 2, 3, 5, 8}) {
    buffer.fill(std::byte{0});
    EXPECT_FALSE(registers_.read(0, std::span(buffer).first(width)));
    for (std::size_t i = 0; i < width; ++i) EXPECT_EQ(buffer[i], std::byte{0xff});
    buffer.fill(std::byte{0});
    EXPECT_FALSE(registers_.write(0x10, std::span<const std::byte>(buffer).first(width)));
  }
  EXPECT_EQ(actions_.last, "");
  for (const std::uint64_t offset : {0x01, 0x02, 0x28, 0xffc, 0x1000}) {
    EXPECT_FALSE(registers_.read(offset, std::span(buffer).first(4))) << offset;
    EXPECT_FALSE(registers_.write(offset, std::span<const std::byte>(buffer).first(4))) << offset;
  }
}

}  // namespace
}  // namespace pvrdma::device
