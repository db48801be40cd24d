#include "vmm/pci.h"

#include <cerrno>
#include <charconv>
#include <fmt/core.h>
#include <string>
#include <string_view>
#include <vector>

namespace pvrdma::vmm {
namespace {

constexpr int kVendor = 0x15ad;
constexpr int kDevice = 0x0820;
constexpr int kBridgesMax = 256;  // bounds the buses of a VM

// Offsets in the configuration space.
constexpr std::uint8_t kCommand = 0x04;
constexpr std::uint8_t kCacheLineAndLatency = 0x0c;
constexpr std::uint8_t kBar0 = 0x10;
constexpr std::uint8_t kBarsEnd = 0x20;  // BAR 2 has 64 bits
constexpr std::uint8_t kInterruptLine = 0x3c;
constexpr std::uint8_t kMsixControl = 0x42;
constexpr std::uint16_t kMemoryAndMaster = 0x0006;

constexpr unsigned kAddressPort = 0xcf8;
constexpr unsigned kDataPort = 0xcfc;
constexpr std::uint32_t kEnable = 0x8000'0000;

// A number in an answer; negative if it is missing, of another type or out of range.
int number_of(const Json& object, const char* member, int most) {
  if (!object.is_object()) return -1;
  const auto found = object.find(member);
  if (found == object.end() || !found->is_number_unsigned()) return -1;
  const auto value = found->get<std::uint64_t>();
  return value <= static_cast<std::uint64_t>(most) ? static_cast<int>(value) : -1;
}

bool is_ours(const Json& device) {
  const auto id = device.find("id");
  return id != device.end() && number_of(*id, "vendor", 0xffff) == kVendor &&
         number_of(*id, "device", 0xffff) == kDevice;
}

// Also searches behind bridges, up to a bounded number.
std::vector<PciPlace> places_in(const Json& buses) {
  std::vector<PciPlace> places;
  std::vector<const Json*> lists;
  if (buses.is_array()) {
    for (const Json& bus : buses) {
      if (bus.is_object() && bus.contains("devices")) lists.push_back(&bus["devices"]);
    }
  }
  for (std::size_t i = 0; i < lists.size() && i < kBridgesMax; ++i) {
    if (!lists[i]->is_array()) continue;
    for (const Json& device : *lists[i]) {
      if (!device.is_object()) continue;
      const int bus = number_of(device, "bus", 0xff);
      const int slot = number_of(device, "slot", 31);
      const int function = number_of(device, "function", 7);
      if (is_ours(device) && bus >= 0 && slot >= 0 && function >= 0) {
        places.push_back({static_cast<std::uint8_t>(bus), static_cast<std::uint8_t>(slot),
                          static_cast<std::uint8_t>(function)});
      }
      if (const auto bridge = device.find("pci_bridge");
          bridge != device.end() && bridge->is_object() && bridge->contains("devices"))
        lists.push_back(&(*bridge)["devices"]);
    }
  }
  return places;
}

// Port accesses to one function's configuration space. The machine has only one address port, so ConfigPorts
// restores its value afterwards.
class ConfigPorts {
 public:
  ConfigPorts(Monitor& monitor, PciPlace place)
      : monitor_(monitor),
        function_(kEnable | static_cast<std::uint32_t>(place.bus) << 16 |
                  static_cast<std::uint32_t>(place.slot) << 11 |
                  static_cast<std::uint32_t>(place.function) << 8) {}

  // "portl[0x0cf8] = 0x80000000"
  Result<std::uint32_t> address() {
    const auto printed = monitor_.human(fmt::format("i /w {:#x}", kAddressPort));
    if (!printed) return Failure(printed.error());
    const auto at = printed->rfind("= 0x");
    std::uint32_t value = 0;
    if (at != std::string::npos) {
      const char* const digits = printed->data() + at + 4;
      if (std::from_chars(digits, printed->data() + printed->size(), value, 16).ec == std::errc{})
        return value;
    }
    return fail(EREMOTEIO, fmt::format("QEMU's monitor does not read ports: \"i /w {:#x}\" printed \"{}\"",
                                       kAddressPort, *printed));
  }
  Result<void> set_address(std::uint32_t address) {
    last_ = address;
    return out('w', kAddressPort, address);
  }
  // Checks that only this object has set the address. EBUSY: what was written may be in another register.
  Result<void> check_address() {
    const auto now = address();
    if (!now) return Failure(now.error());
    if (*now == last_) return {};
    return fail(EBUSY,
                fmt::format("QEMU has set its PCI address port to {:#x} while it was {:#x} for the adapter: "
                            "it still loads its devices",
                            *now, last_));
  }

  Result<void> write32(std::uint8_t offset, std::uint32_t value) { return write('w', offset, value); }
  Result<void> write16(std::uint8_t offset, std::uint16_t value) { return write('h', offset, value); }
  Result<void> write8(std::uint8_t offset, std::uint8_t value) { return write('b', offset, value); }

 private:
  Result<void> write(char size, std::uint8_t offset, std::uint32_t value) {
    if (auto done = set_address(function_ | (offset & 0xfcu)); !done) return done;
    return out(size, kDataPort + (offset & 3u), value);
  }
  Result<void> out(char size, unsigned port, std::uint32_t value) {
    const std::string line = fmt::format("o /{} {:#x} {:#x}", size, port, value);
    const auto printed = monitor_.human(line);
    if (!printed) return Failure(printed.error());
    if (printed->empty()) return {};
    return fail(EREMOTEIO,
                fmt::format("QEMU's monitor does not write ports: \"{}\" printed \"{}\"", line, *printed));
  }

  Monitor& monitor_;
  const std::uint32_t function_;
  std::uint32_t last_ = 0;
};

std::uint32_t read(const PciImage& image, std::uint8_t offset, int bytes) {
  std::uint32_t value = 0;
  for (int i = bytes - 1; i >= 0; --i)
    value = value << 8 | image.config[static_cast<std::size_t>(offset + i)];
  return value;
}

// BARs must be written before decoding is enabled, and the table before vectors are enabled: the VMM then
// assigns at once the vectors that are not masked.
Result<void> write_all(ConfigPorts& ports, const PciImage& image,
                       const std::function<Result<void>()>& write_table) {
  for (std::uint8_t offset = kBar0; offset < kBarsEnd; offset = static_cast<std::uint8_t>(offset + 4)) {
    if (auto done = ports.write32(offset, read(image, offset, 4)); !done) return done;
  }
  const auto command = static_cast<std::uint16_t>(read(image, kCommand, 2));
  const auto word = [&image](std::uint8_t offset) {
    return static_cast<std::uint16_t>(read(image, offset, 2));
  };
  if (auto done = ports.write16(kCacheLineAndLatency, word(kCacheLineAndLatency)); !done) return done;
  if (auto done = ports.write8(kInterruptLine, image.config[kInterruptLine]); !done) return done;
  if (auto done = ports.write16(kCommand, command | kMemoryAndMaster); !done) return done;
  if (image.msix_table) {
    if (auto done = write_table(); !done) return done;
  }
  if (auto done = ports.write16(kMsixControl, word(kMsixControl)); !done) return done;
  return ports.write16(kCommand, command);
}

// Only for a stopped VM whose QEMU loads no devices meanwhile: the guest uses the address port, too, and
// loading sets it.
Result<void> with_ports(Monitor& monitor, PciPlace place,
                        const std::function<Result<void>(ConfigPorts&)>& write) {
  const auto status = monitor.execute("query-status");
  if (!status) return Failure(status.error());
  const auto state = text_of(*status, "status");
  if (!state) return Failure(state.error());
  if (*state == "running")
    return fail(ErrorKind::kConflict, fmt::format("the VM of the QEMU at {} runs", monitor.path()));
  ConfigPorts ports(monitor, place);
  const auto kept = ports.address();
  if (!kept) return Failure(kept.error());
  if (auto written = write(ports); !written) {
    static_cast<void>(ports.set_address(*kept));
    return written;
  }
  if (auto own = ports.check_address(); !own) return own;
  return ports.set_address(*kept);
}

}  // namespace

Result<PciPlace> find_device(Monitor& monitor) {
  const auto buses = monitor.execute("query-pci");
  if (!buses) return Failure(buses.error());
  const std::vector<PciPlace> places = places_in(*buses);
  if (places.empty()) {
    return fail(ENODEV,
                fmt::format("the QEMU at {} has no PVRDMA device: give it the same -device vfio-user-pci",
                            monitor.path()));
  }
  if (places.size() > 1) {
    return fail(ENOTUNIQ,
                fmt::format("the QEMU at {} has {} PVRDMA devices: only a VM with one can change its QEMU",
                            monitor.path(), places.size()));
  }
  return places.front();
}

Result<void> restore(Monitor& monitor, PciPlace place, const PciImage& image,
                     const std::function<Result<void>()>& write_table) {
  return with_ports(monitor, place, [&](ConfigPorts& ports) { return write_all(ports, image, write_table); });
}

Result<void> disable_vectors(Monitor& monitor, PciPlace place) {
  return with_ports(monitor, place, [](ConfigPorts& ports) { return ports.write16(kMsixControl, 0); });
}

}  // namespace pvrdma::vmm
