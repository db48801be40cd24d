#include "api/same_site.h"

#include <algorithm>
#include <cctype>
#include <fmt/core.h>

#include "base/ip_address.h"

namespace pvrdma::api {
namespace {

constexpr const char* kFetchSite = "Sec-Fetch-Site";
constexpr const char* kHidden = "(Content-Type)";  // no client can send it: header names have no brackets

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Makes "fd00::1" from "[fd00::1]:8443".
std::string without_port(const std::string& authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

}  // namespace

bool is_no_dns_name(const std::string& name) {
  return name == "localhost" || IpAddress::parse(name).has_value();
}

std::optional<Reply> refuse_foreign(const httplib::Request& request, const KnowsName& knows) {
  const std::string host = lower(request.get_header_value("Host"));
  if (request.get_header_value_count("Host") != 1 || !knows(without_port(host))) {
    return refuse(403, fmt::format("\"{}\" is not a name of this API: ask with the header Host: localhost on "
                                   "the UNIX socket, over TCP with its address or a name of its certificate",
                                   host.substr(0, 100)));
  }
  if (!request.has_header("Origin")) return std::nullopt;
  const std::string origin = lower(request.get_header_value("Origin"));
  if (request.get_header_value_count("Origin") == 1 &&
      (origin == "https://" + host || origin == "http://" + host))
    return std::nullopt;
  return refuse(403, fmt::format("a page of {} may not use this API: ask without the header Origin",
                                 origin.substr(0, 100)));
}

std::optional<Reply> refuse_cross_site(const httplib::Request& request) {
  if (!request.has_header(kFetchSite)) return std::nullopt;
  const std::string site = lower(request.get_header_value(kFetchSite));
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (request.get_header_value_count(kFetchSite) == 1 && (site == "same-origin" || (site == "none" && reads)))
    return std::nullopt;
  return refuse(403, "a page of another site may not use this API: open the page of this server, /ui/");
}

void hide_content_type(httplib::Request& request) {
  request.headers.erase(kHidden);
  for (auto [at, end] = request.headers.equal_range("Content-Type"); at != end; ++at)
    request.headers.emplace(kHidden, at->second);
  request.headers.erase("Content-Type");
}

bool says(const httplib::Request& request, std::string_view wanted) {
  if (request.get_header_value_count(kHidden) != 1) return false;
  std::string type = lower(request.get_header_value(kHidden));
  type.resize(std::min(type.size(), type.find(';')));
  while (type.ends_with(' ') || type.ends_with('\t')) type.pop_back();
  return type == wanted;
}

}  // namespace pvrdma::api
