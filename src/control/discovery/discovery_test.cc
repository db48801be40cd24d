#include "control/discovery/discovery.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdexcept>

#include "control/discovery/verbs_devices.h"

namespace pvrdma::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// A tree like /sys in a temporary folder.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string path = (std::filesystem::temp_directory_path() / "pvrdma-sysfs-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = path;
  }
  ~FakeSysfs() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;

  std::string root() const { return root_.string(); }
  void file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  // The link is absolute, so that the depth of `path` does not matter.
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::filesystem::create_directories(root_ / target);
    std::filesystem::create_symlink(root_ / target, root_ / path);
  }
  void nic(const std::string& name, const std::string& pci) {
    const std::string device = "devices/pci0000:00/" + pci;
    const std::string net = "class/net/" + name;
    link(device + "/driver", "bus/pci/drivers/ice");
    file(device + "/vendor", "0x8086\n");
    file(device + "/device", "0x1583\n");
    file(net + "/address", "52:54:00:00:00:01\n");
    file(net + "/mtu", "9000\n");
    file(net + "/operstate", "up\n");
    file(net + "/carrier", "1\n");
    file(net + "/speed", "100000\n");
    file(net + "/duplex", "full\n");
    link(net + "/device", device);
  }
  void rdma(const std::string& name, const std::string& netdev, const std::vector<std::string>& gid_types) {
    const std::string port = "class/infiniband/" + name + "/ports/1";
    file(port + "/link_layer", "Ethernet\n");
    file(port + "/gid_attrs/ndevs/0", netdev + "\n");
    for (std::size_t i = 0; i < gid_types.size(); ++i) {
      file(port + "/gid_attrs/types/" + std::to_string(i), gid_types[i] + "\n");
    }
  }

 private:
  std::filesystem::path root_;
};

Discovered discover_in(const FakeSysfs& sysfs, std::vector<std::string> vmnics = {},
                       const std::vector<VerbsDevice>& devices = {}) {
  return discover(DiscoveryConfig{std::move(vmnics), sysfs.root()}, devices);
}

TEST(Discovery, FindsTheNicsWithADevice) {
  FakeSysfs sysfs;
  sysfs.nic("eth1", "0000:02:00.1");
  sysfs.nic("eth0", "0000:02:00.0");
  sysfs.file("class/net/lo/mtu", "65536\n");
  const Discovered found = discover_in(sysfs);
  ASSERT_EQ(found.vmnics.size(), 2u);
  EXPECT_TRUE(found.vmnics[0] == (Vmnic{"vmnic0", "eth0", "0000:02:00.0", "ice", "52:54:00:00:00:01",
                                        "PCI device 8086:1583", true, 9000, 100000, true}));
  EXPECT_EQ(found.vmnics[1].name, "vmnic1");
  EXPECT_EQ(found.vmnics[1].netdev, "eth1");
  EXPECT_EQ(found.vmnics[1].pci_address, "0000:02:00.1");
  EXPECT_THAT(found.rdma_devices, IsEmpty());
}

TEST(Discovery, TakesTheConfiguredOnesInTheirOrder) {
  FakeSysfs sysfs;
  sysfs.nic("eth0", "0000:02:00.0");
  sysfs.file("class/net/veth7/operstate", "unknown\n");  // a virtual interface
  sysfs.file("class/net/veth7/carrier", "1\n");
  sysfs.file("class/net/veth7/mtu", "1500\n");
  const Discovered found = discover_in(sysfs, {"veth7", "gone", "eth0"});
  ASSERT_EQ(found.vmnics.size(), 3u);
  EXPECT_TRUE(found.vmnics[0] ==
              (Vmnic{"vmnic0", "veth7", "", "", "", "Virtual interface", true, 1500, 0, true}));
  EXPECT_TRUE(found.vmnics[1] == (Vmnic{"vmnic1", "gone", "", "", "", "", false, 0, 0, true}));
  EXPECT_EQ(found.vmnics[2].netdev, "eth0");
}

TEST(Discovery, SeesTheLinkAndTheFunctionBehindAVirtioNic) {
  FakeSysfs sysfs;
  sysfs.nic("eth0", "0000:00:03.0/virtio2");
  EXPECT_EQ(discover_in(sysfs).vmnics.at(0).pci_address, "0000:00:03.0");
  sysfs.file("class/net/eth0/speed", "-1\n");
  sysfs.file("class/net/eth0/duplex", "half\n");
  const Vmnic slow = discover_in(sysfs).vmnics.at(0);
  EXPECT_TRUE(slow.link_up);
  EXPECT_EQ(slow.speed_mbps, 0u);
  EXPECT_FALSE(slow.full_duplex);
  sysfs.file("class/net/eth0/speed", "4294967295\n");
  EXPECT_EQ(discover_in(sysfs).vmnics.at(0).speed_mbps, 0u);

  sysfs.file("class/net/eth0/speed", "1000\n");
  sysfs.file("class/net/eth0/carrier", "0\n");
  EXPECT_FALSE(discover_in(sysfs).vmnics.at(0).link_up);
  EXPECT_EQ(discover_in(sysfs).vmnics.at(0).speed_mbps, 0u);
  sysfs.file("class/net/eth0/carrier", "1\n");
  sysfs.file("class/net/eth0/operstate", "lowerlayerdown\n");
  EXPECT_FALSE(discover_in(sysfs).vmnics.at(0).link_up);
}

TEST(Discovery, PairsRdmaDevicesWithTheirUplinks) {
  FakeSysfs sysfs;
  sysfs.nic("eth0", "0000:02:00.0");
  sysfs.nic("eth1", "0000:03:00.0");
  sysfs.rdma("mlx5_1", "eth1", {"IB/RoCE v1", "RoCE v2", ""});
  sysfs.link("class/infiniband/mlx5_1/device", "devices/pci0000:00/0000:03:00.0");
  sysfs.file("class/infiniband/mlx5_1/hca_type", "MT4119\n");
  sysfs.rdma("mlx5_0", "br0", {"IB/RoCE v1"});
  sysfs.rdma("irdma0", "eth0", {"IB/RoCE v1"});
  sysfs.rdma("ib0", "", {"IB/RoCE v1"});
  sysfs.file("class/infiniband/ib0/ports/1/link_layer", "InfiniBand\n");
  const Discovered found = discover_in(sysfs, {},
                                       {{"mlx5_1", false, true, 4096, 100000},
                                        {"mlx5_0", false, false, 1024, 25000},
                                        {"irdma0", true, true, 1024, 10000},
                                        {"ib0", false, true, 4096, 200000}});
  ASSERT_EQ(found.rdma_devices.size(), 4u);
  const RdmaDevice& ib = found.rdma_devices[0];
  const RdmaDevice& iwarp = found.rdma_devices[1];
  const RdmaDevice& down = found.rdma_devices[2];
  EXPECT_EQ(ib.device, "ib0");
  EXPECT_EQ(ib.paired_uplink, "");
  EXPECT_FALSE(ib.roce_v1) << "InfiniBand has GIDs of that type too";
  EXPECT_EQ(iwarp.device, "irdma0");
  EXPECT_EQ(iwarp.paired_uplink, "vmnic0");
  EXPECT_TRUE(iwarp.iwarp && !iwarp.roce_v1 && !iwarp.roce_v2);
  EXPECT_EQ(down.device, "mlx5_0");
  EXPECT_EQ(down.paired_uplink, "") << "br0 is no vmnic";
  EXPECT_TRUE(!down.active && down.roce_v1 && !down.roce_v2);
  EXPECT_EQ(down.speed_mbps, 0u);
  EXPECT_TRUE(found.rdma_devices[3] == (RdmaDevice{"vmrdma3", "mlx5_1", "ice", true, 4096, 100000, "vmnic1",
                                                   "MT4119, PCI device 8086:1583", true, true, false}));
}

TEST(Discovery, AnEmptyOrAbsentTreeHasNothing) {
  FakeSysfs sysfs;
  EXPECT_TRUE(discover_in(sysfs) == Discovered{});
  EXPECT_TRUE(discover(DiscoveryConfig{{}, sysfs.root() + "/nowhere"}, {}) == Discovered{});
  EXPECT_EQ(discover(DiscoveryConfig{{"eth0"}, sysfs.root()}).vmnics.size(), 1u)
      << "with the real libibverbs";
}

TEST(Discovery, ReadsTheCountersOfADevice) {
  FakeSysfs sysfs;
  const std::string port = "class/infiniband/mlx5_0/ports/1";
  sysfs.file(port + "/counters/port_rcv_data", "18446744073709551615\n");
  sysfs.file(port + "/counters/VL15_dropped", "N/A (no PMA)\n");
  sysfs.file(port + "/hw_counters/lifespan", "10\n");
  sysfs.file(port + "/hw_counters/out_of_sequence", "3\n");
  const auto counters = device_counters("mlx5_0", sysfs.root());
  ASSERT_TRUE(counters) << counters.error().message;
  EXPECT_THAT(*counters, ElementsAre(Pair("lifespan", 10u), Pair("out_of_sequence", 3u),
                                     Pair("port_rcv_data", 18446744073709551615u)));
  sysfs.file("secret/ports/1/counters/x", "1\n");
  for (const char* device : {"mlx5_1", "", "..", "../../secret", "mlx5_0/"}) {
    const auto none = device_counters(device, sysfs.root());
    ASSERT_FALSE(none) << device;
    EXPECT_EQ(none.error().kind, ErrorKind::kNotFound);
    EXPECT_THAT(none.error().message, HasSubstr("\"" + std::string(device) + "\""));
  }
}

TEST(VerbsDevices, SpeedIsLanesTimesLaneRate) {
  EXPECT_EQ(port_speed_mbps(32, 2), 100000u);   // 4 x EDR
  EXPECT_EQ(port_speed_mbps(64, 2), 200000u);   // 4 x HDR
  EXPECT_EQ(port_speed_mbps(128, 4), 800000u);  // 8 x NDR
  EXPECT_EQ(port_speed_mbps(4, 1), 10000u);
  EXPECT_EQ(port_speed_mbps(8, 2), 40000u);
  EXPECT_EQ(port_speed_mbps(1, 8), 30000u);
  EXPECT_EQ(port_speed_mbps(32, 16), 50000u);
  EXPECT_EQ(port_speed_mbps(3, 2), 0u);
  EXPECT_EQ(port_speed_mbps(32, 0), 0u);
}

}  // namespace
}  // namespace pvrdma::control
