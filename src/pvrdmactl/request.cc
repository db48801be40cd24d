#include "pvrdmactl/request.h"

#include <cstdint>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"

namespace pvrdma::ctl {
namespace {

// `part` with each {x} replaced. `complete` becomes false if a value is missing.
std::string filled(std::string_view part, const Values& values, bool& complete) {
  std::string text;
  complete = true;
  while (!part.empty()) {
    const auto open = part.find('{');
    text += part.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = part.find('}', open);
    PVRDMA_CHECK(close != std::string_view::npos, "a path of the grammar closes its braces");
    const auto value = values.find(part.substr(open + 1, close - open - 1));
    if (value == values.end()) {
      complete = false;
    } else {
      text += percent_encoded(value->second);
    }
    part.remove_prefix(close + 1);
  }
  return text;
}

// The query's members whose arguments have values: "?a=1&b=2".
std::string query(std::string_view members, const Values& values) {
  std::string text;
  while (!members.empty()) {
    const auto end = members.find('&');
    bool complete = false;
    const std::string member = filled(members.substr(0, end), values, complete);
    if (complete) text += (text.empty() ? "?" : "&") + member;
    if (end == std::string_view::npos) break;
    members.remove_prefix(end + 1);
  }
  return text;
}

// The path below which the daemon of another host answers, if the command reads from one.
std::string of_other_host(std::string path, const Command& command, const Values& values) {
  constexpr std::string_view kRoot = "/v1";
  const auto host = values.find("host");
  if (command.method != Method::kGet || host == values.end() ||
      command.path.find("{host}") != std::string::npos)
    return path;
  return path.insert(kRoot.size(), "/hosts/" + percent_encoded(host->second));
}

Json listed(std::string_view texts) {
  Json list = Json::array();
  if (texts == "any") return list;
  for (;;) {
    const auto comma = texts.find(',');
    list.push_back(std::string(texts.substr(0, comma)));
    if (comma == std::string_view::npos) return list;
    texts.remove_prefix(comma + 1);
  }
}

Json typed(const Argument& argument, const std::string& value) {
  switch (argument.kind) {
    case Kind::kNumber:
    case Kind::kMemory:
      return static_cast<std::uint32_t>(std::stoul(value));
    case Kind::kProbability:
      return std::stod(value);
    case Kind::kTexts:
      return listed(value);
    case Kind::kBool:
      return value == "true";
    case Kind::kUpDown:
      return value == "up";
    case Kind::kOnOff:
      return value == "on";
    case Kind::kText:
    case Kind::kName:
    case Kind::kChoice:
    case Kind::kFile:
    case Kind::kFlag:
      break;
  }
  return value;
}

}  // namespace

Request make_request(const Command& command, const Values& values) {
  const auto question = command.path.find('?');
  bool complete = false;
  Request request{command.method,
                  filled(std::string_view(command.path).substr(0, question), values, complete), "",
                  command.answer_seconds};
  PVRDMA_CHECK(complete, "every argument in a command's path is required or has a fallback");
  request.path = of_other_host(std::move(request.path), command, values);
  if (question != std::string::npos) {
    request.path += query(std::string_view(command.path).substr(question + 1), values);
  }
  if (command.method == Method::kGet || command.method == Method::kDelete) return request;
  Json body = Json::object();
  for (const Argument& argument : command.arguments) {
    const auto value = values.find(argument.name);
    if (argument.member.empty() || value == values.end()) continue;
    body[Json::json_pointer(argument.member)] = typed(argument, value->second);
  }
  request.body = body.dump();
  return request;
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                            c == '-' || c == '.' || c == '_' || c == '~';
    encoded += unreserved ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string_view to_string(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      break;
  }
  return "DELETE";
}

}  // namespace pvrdma::ctl
