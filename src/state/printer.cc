#include "state/printer.h"

namespace pvrdma::state {

Printer::Printer(std::span<const std::byte> stream) : Reader(stream) {
  if (failed()) return;
  text_ += "format " + std::to_string(kFormat) + "\n";
  line("product_version", '"' + head().product_version + '"');
  line("id", hex(head().id));
}

void Printer::line(std::string_view name, std::string_view value) {
  if (failed()) return;
  text_.append("  ").append(name);
  if (!value.empty()) text_.append(" ").append(value);
  text_ += '\n';
}

std::string Printer::hex(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

void Printer::pages(std::string_view name, std::vector<std::uint64_t>& pages, std::uint32_t most) {
  Reader::pages(name, pages, most);
  line(name, std::to_string(pages.size()) + " pages" +
                 (pages.empty() ? std::string() : ", the first at " + std::to_string(pages.front())));
}

}  // namespace pvrdma::state
