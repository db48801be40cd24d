// The connection manager on its queue pair 1. Only what arrives moves it here: no timer runs, so nothing is
// repeated.
#include "standin/cm_service.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "standin/gid_list.h"
#include "support/must.h"
#include "support/served_host.h"

namespace pvrdma::test {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr std::uint16_t kPort = 7174;

class CmServiceTest : public ::testing::Test {
 protected:
  // Waits for the device, and takes what it has. False: nothing has come for long.
  bool take() {
    pollfd waiting{adapter_->device().event_fd(abi::Vector::kNotification), POLLIN, 0};
    if (::poll(&waiting, 1, kPatienceMs) != 1) return false;
    adapter_->dispatch_events();
    if (adapter_->take_own_notification()) service_->take_datagrams();
    return true;
  }

  const IpAddress address_ = must(IpAddress::parse("10.99.0.1"));
  ServedHost host_{{.adapter_count = 1}};
  std::unique_ptr<standin::Adapter> adapter_ =
      must(standin::Adapter::open(host_.socket_path(0), std::vector{address_}, std::nullopt));
  std::unique_ptr<standin::CmService> service_ = must(standin::CmService::create(*adapter_));
};

// As when a program with many connections ends.
TEST_F(CmServiceTest, SendsMoreAtOnceThanTheQueuePairHolds) {
  constexpr std::uint32_t kRequests = 500;
  cm::Manager& manager = service_->manager();
  const cm::Handle listener = must(manager.create(0));
  must(manager.bind(listener, {{}, kPort}));
  must(manager.listen(listener, kRequests));
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    const cm::Handle id = must(manager.create(0));
    must(manager.resolve(id, {}, {standin::gid_of(address_).raw, kPort}));
    must(manager.connect(id, {.qpn = 100 + i}, {}, Instant::now()));
  }
  service_->flush();
  while (manager.find(listener)->pending.size() < kRequests)
    ASSERT_TRUE(take()) << manager.find(listener)->pending.size() << " of " << kRequests << " have arrived";
}

}  // namespace
}  // namespace pvrdma::test
