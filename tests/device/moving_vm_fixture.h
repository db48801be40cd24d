// Tests of a VM that changes its daemon or its VMM while its connection exists, in both doorbell modes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "device/capabilities.h"
#include "device_test.h"

namespace pvrdma::test {

class MovingVmTest : public RcTest, public ::testing::WithParamInterface<DoorbellMode> {
 protected:
  static TestbenchOptions options_of(DoorbellMode doorbells) {
    TestbenchOptions options;
    options.doorbells = doorbells;
    options.driver.ram.size_bytes = 8u << 20;
    return options;
  }
  explicit MovingVmTest(const TestbenchOptions& options = options_of(GetParam())) : RcTest({}, {}, options) {}

  static bool needs_another_host() { return GetParam() == DoorbellMode::kMapped && !kHostIsX86; }
  void connect_both() { RcTest::SetUp(); }
  // Opens the guest's driver on this bus.
  template <typename Bus>
  Bus* open_on(std::uint32_t index, std::unique_ptr<Bus> bus) {
    Bus* const opened = bus.get();
    devices_[index] = must(driver::Device::open(std::move(bus), options_.driver));
    must(devices_[index]->bind_gid(0, gid_of(index)));
    return opened;
  }
  template <typename Bus, std::size_t kCount>
  void open_all(std::array<Bus*, kCount>& buses) {
    for (std::uint32_t index = 0; index < kCount; ++index)
      buses[index] = open_on(index, std::make_unique<Bus>(host_, index));
  }

  // Moves data in both directions, and sends a message each way that wakes its receiver.
  void exchange(std::uint8_t seed) {
    a_->fill(0, 5000, seed);
    const Sge out = a_->sge(0, 5000);
    const Sge back = a_->sge(8192, 5000);
    EXPECT_TRUE(execute(wr::write(1, one(out), b_->remote())).ok());
    EXPECT_TRUE(execute(wr::read(2, one(back), b_->remote())).ok());
    EXPECT_TRUE(a_->holds(8192, 5000, seed));
    send(*a_, *b_, seed);
    send(*b_, *a_, seed);
  }

 private:
  static void send(RcEndpoint& from, RcEndpoint& to, std::uint8_t seed) {
    from.fill(32'768, 3000, seed);
    const Sge out = from.sge(32'768, 3000);
    ASSERT_TRUE(to.recv(3, 16'384, 3000).ok());
    must(to.recv_cq->arm());
    ASSERT_TRUE(from.qp->post_send(wr::send(4, one(out))).ok());
    EXPECT_TRUE(to.recv_cq->wait(kPatience)) << "nobody woke the receiver";
    EXPECT_EQ(await_one(*to.recv_cq).byte_len, 3000u);
    EXPECT_TRUE(await_one(*from.send_cq).ok());
    EXPECT_TRUE(to.holds(16'384, 3000, seed));
  }
};

}  // namespace pvrdma::test
