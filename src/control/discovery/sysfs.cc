#include "control/discovery/sysfs.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <system_error>

#include "base/whole_number.h"

namespace pvrdma::control {
namespace {

constexpr std::size_t kLineBytesMax = 4096;
constexpr std::size_t kEntriesMax = 4096;

// DOMAIN:BUS:DEVICE.FUNCTION, with a domain of four or more digits.
bool is_pci_address(std::string_view text) {
  constexpr std::string_view kTail = ":00:00.0";
  if (text.size() < 4 + kTail.size()) return false;
  const std::size_t domain_digits = text.size() - kTail.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char expected = i < domain_digits ? '0' : kTail[i - domain_digits];
    const bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (expected == '0' ? !hex : text[i] != expected) return false;
  }
  return true;
}

}  // namespace

bool Sysfs::exists(const std::string& path) const {
  std::error_code error;
  return std::filesystem::exists(at(path), error);
}

std::string Sysfs::text(const std::string& path) const {
  std::ifstream file(at(path), std::ios::binary);
  std::array<char, kLineBytesMax> bytes;
  file.read(bytes.data(), bytes.size());
  std::string_view line(bytes.data(), static_cast<std::size_t>(file.gcount()));
  line = line.substr(0, line.find('\n'));
  while (!line.empty() && (line.back() == ' ' || line.back() == '\0')) line.remove_suffix(1);
  return std::string(line);
}

std::optional<std::uint64_t> Sysfs::number(const std::string& path) const {
  return whole_number<std::uint64_t>(text(path));
}

std::vector<std::string> Sysfs::list(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator it(at(path), error);
  while (!error && it != std::filesystem::directory_iterator() && names.size() < kEntriesMax) {
    names.push_back(it->path().filename().string());
    it.increment(error);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Sysfs::link_name(const std::string& path) const {
  std::error_code error;
  return std::filesystem::read_symlink(at(path), error).filename().string();
}

std::string Sysfs::pci_address(const std::string& path) const {
  std::error_code error;
  const auto device = std::filesystem::canonical(at(path), error);
  std::string nearest;
  for (const auto& component : device) {
    if (is_pci_address(component.string())) nearest = component.string();
  }
  return nearest;
}

}  // namespace pvrdma::control
