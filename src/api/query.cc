#include "api/query.h"

#include <charconv>

namespace pvrdma::api {
namespace {

// "%2F" becomes "/". What only looks like an encoded character stays as it is.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && text.size() - i > 2 &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

void split_query(std::string_view whole, std::string& path, std::multimap<std::string, std::string>& query) {
  const std::size_t mark = whole.find('?');
  path = decoded(whole.substr(0, mark));
  for (std::size_t end = mark; end != std::string_view::npos;) {
    whole.remove_prefix(end + 1);
    end = whole.find('&');
    const std::string_view one = whole.substr(0, end);
    const std::size_t equals = one.find('=');
    query.emplace(decoded(one.substr(0, equals)),
                  equals == std::string_view::npos ? "" : decoded(one.substr(equals + 1)));
  }
}

}  // namespace pvrdma::api
