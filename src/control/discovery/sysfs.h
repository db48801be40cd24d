// Sysfs: reads the kernel's information about devices. The root is a parameter, so that tests can use their
// own tree.
//
// Everything is best effort: the result is empty if a file does not exist or cannot be read (the kernel
// refuses the speed of a link that is down). Thread: any; blocking.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pvrdma::control {

class Sysfs {
 public:
  explicit Sysfs(std::string root) : root_(std::move(root)) {}

  bool exists(const std::string& path) const;
  // A file's first line.
  std::string text(const std::string& path) const;
  std::optional<std::uint64_t> number(const std::string& path) const;  // decimal
  // The names in a folder, sorted; at most a fixed number of them.
  std::vector<std::string> list(const std::string& path) const;
  // The last component of a symbolic link's target.
  std::string link_name(const std::string& path) const;
  // The nearest PCI function at or above a device: "0000:02:00.0".
  std::string pci_address(const std::string& path) const;

 private:
  std::filesystem::path at(const std::string& path) const { return root_ / path; }
  std::filesystem::path root_;
};

}  // namespace pvrdma::control
