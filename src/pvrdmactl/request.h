// make_request(): the HTTP request of a command with its values. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

struct Request {
  Method method = Method::kGet;
  std::string path;  // with the query, percent-encoded
  std::string body;  // empty for GET and DELETE
  std::uint32_t answer_seconds = 15;
  std::string_view type = "application/json";  // of the body
  std::uint32_t reach_seconds = 15;            // the longest wait for a connection
};

// Sends a request to the daemon: api_client.h's send().
using SendRequest = std::function<Result<std::string>(const Request& request)>;

// `values` are checked and complete, as after parse() and Command::complete.
Request make_request(const Command& command, const Values& values);

// Encodes every character that is not unreserved in RFC 3986 (section 2.3) as %XX.
std::string percent_encoded(std::string_view text);

std::string_view to_string(Method method);  // "GET"

}  // namespace pvrdma::ctl
