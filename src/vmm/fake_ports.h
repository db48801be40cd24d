// FakePorts: the PCI ports of a fake QEMU, by the lines of its monitor. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <fmt/core.h>
#include <string>
#include <string_view>

namespace pvrdma::vmm {

class FakePorts {
 public:
  // What the monitor prints.
  std::string answer(const std::string& line) {
    constexpr std::string_view kSet = "o /w 0xcf8 ";
    if (line.starts_with(kSet))
      address = static_cast<std::uint32_t>(std::stoul(line.substr(kSet.size()), nullptr, 16));
    return line.starts_with("i ") ? fmt::format("portl[0x0cf8] = {:#x}\r\n", address.load()) : "";
  }

  std::atomic<std::uint32_t> address = 0;
};

}  // namespace pvrdma::vmm
