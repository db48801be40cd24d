#include "api/router.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "api/answers.h"
#include "base/whole_number.h"
#include "vocabulary/name.h"

namespace pvrdma::api {
namespace {

Reply refuse_parameter(const Route& route, const Call& call, std::string_view name) {
  constexpr std::size_t kShownBytes = 64;
  return refuse(
      ErrorKind::kInvalid,
      fmt::format("{} {} has no parameter \"{}\": {}", call.method, call.path, name.substr(0, kShownBytes),
                  route.query.empty() ? "it has no parameters at all, leave it out"
                                      : fmt::format("it knows only {}", fmt::join(route.query, ", "))));
}

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return 400;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kConflict:
      return 409;
    case ErrorKind::kUnavailable:
      return 503;
    case ErrorKind::kInternal:
      break;
  }
  return 500;
}

}  // namespace

Reply ok(std::string json) {
  json += '\n';
  return {200, std::move(json)};
}

Reply refuse(int status, std::string_view sentence) {
  return {status, error_text({.error = std::string(sentence)}) + "\n"};
}

Reply refuse_edit(const Reply& refusal, std::size_t index, std::string_view edit) {
  ErrorAnswer answer = error_from(refusal.text);
  answer.error = fmt::format("edit {}, {}: {}", index, edit, answer.error);
  answer.index = index;
  return {refusal.status, error_text(answer) + "\n"};
}

Reply refuse(ErrorKind kind, std::string_view sentence) {
  return refuse(status_of(kind), sentence);
}

Reply refuse(const Error& error) {
  ErrorAnswer answer{.error = error.message};
  if (!error.field.empty()) answer.field = error.field;
  return {status_of(error.kind), error_text(answer) + "\n"};
}

std::string Call::parameter(const std::string& name) const {
  const auto it = query.find(name);
  return it == query.end() ? "" : it->second;
}

Result<std::optional<std::uint64_t>> number_of(const Call& call, const std::string& parameter) {
  const std::string text = call.parameter(parameter);
  if (text.empty()) return std::nullopt;
  if (const auto number = whole_number<std::uint64_t>(text)) return number;
  constexpr std::size_t kShownBytes = 64;
  return fail(ErrorKind::kInvalid, fmt::format("{} is \"{}\": give a number, 0 to {}", parameter,
                                               text.substr(0, kShownBytes), UINT64_MAX));
}

void Router::add(Route route) {
  routes_.push_back(std::move(route));
}

const Route* Router::find(std::string_view method, const std::vector<std::string_view>& path) const {
  const auto route = std::find_if(routes_.begin(), routes_.end(), [&](const Route& each) {
    return each.method == method && matches(each.path, path);
  });
  return route == routes_.end() ? nullptr : &*route;
}

const Route* Router::find_stream(const std::vector<std::string_view>& path) const {
  const auto route = std::find_if(routes_.begin(), routes_.end(), [&](const Route& each) {
    return each.streams && matches(each.path, path);
  });
  return route == routes_.end() ? nullptr : &*route;
}

std::size_t Router::binary_bytes_max(std::string_view method, std::string_view path) const {
  const Route* const route = find(method, segments(path));
  return route == nullptr ? 0 : route->binary_bytes_max;
}

bool Router::has(std::string_view method, std::string_view path) const {
  return find(method, segments(path)) != nullptr;
}

bool Router::is_open(std::string_view method, std::string_view path) const {
  const Route* const route = find(method == "HEAD" ? "GET" : method, segments(path));
  return route != nullptr && route->is_open;
}

std::optional<Reply> Router::refuse_role(Role role, std::string_view method, std::string_view path) {
  if (role == Role::kAdministrator || method == "GET" || method == "HEAD") return std::nullopt;
  return refuse(403,
                fmt::format("the token of [api] read_token_file permits only GET: {} {} needs the token of "
                            "[api] token_file",
                            method, path));
}

Reply Router::answer(Call call) const {
  if (auto refusal = refuse_role(call.role, call.method, call.path)) return *std::move(refusal);
  const auto path = segments(call.path);
  if (call.method == "HEAD") {
    if (const Route* const streaming = find_stream(path)) {
      Reply refusal = refuse(405, fmt::format("the answer of {} is a stream, which HEAD would begin: send {}",
                                              call.path, streaming->method));
      refusal.headers["Allow"] = streaming->method;
      return refusal;
    }
    call.method = "GET";
  }
  const Route* const route = find(call.method, path);
  if (route == nullptr) {
    return refuse(ErrorKind::kNotFound,
                  fmt::format("this API has no {} {}: see pvrdmad(8)", call.method, call.path));
  }
  if (route->of_cluster && membership_ == Membership::kAlone) {
    return refuse(ErrorKind::kNotFound,
                  "this daemon is not a member of a cluster: give its configuration a [host] table");
  }
  const auto expected = segments(route->path);
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!is_variable(expected[i])) continue;
    if (!is_name(path[i])) {
      return refuse(ErrorKind::kInvalid, fmt::format("{}: a name is {}", path[i], kNameRule));
    }
    call.names.emplace_back(path[i]);
  }
  for (const auto& [name, value] : call.query) {
    if (std::ranges::count(route->query, name) == 0) return refuse_parameter(*route, call, name);
  }
  for (const std::string_view name : route->query) {
    if (!route->query_required || !call.parameter(std::string(name)).empty()) continue;
    return refuse(ErrorKind::kInvalid, fmt::format("{} {} needs the parameter {}: add ?{}=VALUE", call.method,
                                                   call.path, name, name));
  }
  return route->handler(call);
}

std::vector<std::string_view> segments(std::string_view path) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t slash = path.find('/');
    parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

bool is_variable(std::string_view segment) {
  return segment.starts_with('{');
}

bool matches(std::string_view pattern, const std::vector<std::string_view>& path) {
  const auto expected = segments(pattern);
  return std::equal(expected.begin(), expected.end(), path.begin(), path.end(),
                    [](std::string_view wanted, std::string_view given) {
                      return is_variable(wanted) ? !given.empty() : wanted == given;
                    });
}

}  // namespace pvrdma::api
