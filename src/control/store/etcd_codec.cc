#include "control/store/etcd_codec.h"

#include <cerrno>
#include <fmt/core.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/whole_number.h"
#include "control/store/base64.h"

namespace pvrdma::control::etcd {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;  // an answer to a range request needs 4

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Checked before parsing, because a value takes 16 bytes or more for each bracket.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kMaxDepth) return true;
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return false;
}

// A JSON object, or a discarded value.
Json parse_object(std::string_view text) {
  if (too_deep(text)) return Json(Json::value_t::discarded);
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json(Json::value_t::discarded);
}

Failure nonsense(std::string_view what) {
  return fail(EPROTO, fmt::format("its answer {} (is it an etcd?)", what));
}

const Json* find(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}

// An absent number is 0, because the gateway omits defaults.
template <typename Int>
std::optional<Int> number(const Json& object, const char* name) {
  const Json* member = find(object, name);
  if (member == nullptr) return Int{0};
  if (member->is_number_integer()) return member->get<Int>();
  if (!member->is_string()) return std::nullopt;
  return whole_number<Int>(member->get_ref<const std::string&>());
}

std::optional<std::string> bytes(const Json& object, const char* name) {
  const Json* member = find(object, name);
  if (member == nullptr) return std::string();
  if (!member->is_string()) return std::nullopt;
  return from_base64(member->get_ref<const std::string&>());
}

std::string words(const Json& object, const char* name) {
  const Json* member = find(object, name);
  return member != nullptr && member->is_string() ? member->get<std::string>() : std::string();
}

bool flag(const Json& object, const char* name) {
  const Json* member = find(object, name);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}

// The caller adds one to a revision, which must not overflow.
constexpr std::int64_t kRevisionMax = std::numeric_limits<std::int64_t>::max() - 1;

std::optional<Header> header_of(const Json& answer) {
  const Json* header = find(answer, "header");
  if (header == nullptr || !header->is_object()) return std::nullopt;
  const auto cluster = number<std::uint64_t>(*header, "cluster_id");
  const auto revision = number<std::int64_t>(*header, "revision");
  if (!cluster || !revision || *revision > kRevisionMax) return std::nullopt;
  return Header{*cluster, *revision};
}

std::optional<std::string> key_of(const Json& kv, std::string_view prefix) {
  auto key = bytes(kv, "key");
  if (!key || !key->starts_with(prefix)) return std::nullopt;
  return key->substr(prefix.size());
}

// The first key after all keys that begin with `prefix`. For etcd, "\0" means the end.
std::string end_of(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty()) {
    if (static_cast<unsigned char>(end.back()) != 0xff) {
      end.back() = static_cast<char>(end.back() + 1);
      return end;
    }
    end.pop_back();
  }
  return std::string(1, '\0');
}

std::string first_of(std::string_view prefix) {
  return prefix.empty() ? std::string(1, '\0') : std::string(prefix);
}

std::string full_key(std::string_view prefix, std::string_view key) {
  return to_base64(std::string(prefix).append(key));
}

Json operation(std::string_view prefix, const Change& change, std::int64_t lease) {
  const std::string key = full_key(prefix, change.key);
  if (!change.value) return {{"request_delete_range", {{"key", key}}}};
  Json put = {{"key", key}, {"value", to_base64(*change.value)}};
  if (change.leased) put["lease"] = std::to_string(lease);
  return {{"request_put", std::move(put)}};
}

Json comparison(std::string_view prefix, const Expectation& expectation) {
  Json compare = {{"key", full_key(prefix, expectation.key)}, {"result", "EQUAL"}};
  if (expectation.value) {
    compare["target"] = "VALUE";
    compare["value"] = to_base64(*expectation.value);
  } else {
    compare["target"] = "CREATE";
    compare["create_revision"] = "0";
  }
  return compare;
}

std::optional<Event> event_of(const Json& json, std::string_view prefix) {
  const Json* kv = find(json, "kv");
  if (kv == nullptr) return std::nullopt;
  auto key = key_of(*kv, prefix);
  const auto revision = number<std::int64_t>(*kv, "mod_revision");
  const auto lease = number<std::int64_t>(*kv, "lease");
  auto value = bytes(*kv, "value");
  if (!key || !revision || *revision <= 0 || *revision > kRevisionMax || !lease || !value)
    return std::nullopt;
  if (words(json, "type") == "DELETE") return Event{*revision, {std::move(*key), std::nullopt, false}};
  return Event{*revision, {std::move(*key), std::move(*value), *lease != 0}};
}

constexpr std::int64_t kTtlMax = 1'000'000'000;  // seconds; etcd grants much less

Result<LeaseState> lease_of(const Json& answer) {
  const auto id = number<std::int64_t>(answer, "ID");
  const auto ttl = number<std::int64_t>(answer, "TTL");
  if (!header_of(answer) || !id || !ttl || *ttl > kTtlMax) return nonsense("about a lease is not understood");
  return LeaseState{*id, *ttl};
}

}  // namespace

std::string range_request(std::string_view prefix, const std::optional<std::string>& after, int limit,
                          std::int64_t revision) {
  std::string first = first_of(prefix);
  if (after) first = std::string(prefix).append(*after).append(1, '\0');
  Json request = {{"key", to_base64(first)}, {"range_end", to_base64(end_of(prefix))}};
  if (limit == 0) {
    request["count_only"] = true;
  } else {
    request["limit"] = std::to_string(limit);
  }
  if (revision != 0) request["revision"] = std::to_string(revision);
  return text_of(request);
}

Result<Range> parse_range(std::string_view prefix, std::string_view text) {
  const Json answer = parse_object(text);
  const auto header = header_of(answer);
  if (!header || header->revision <= 0) return nonsense("about records is not understood");
  Range range{*header, {}, flag(answer, "more")};
  const Json* kvs = find(answer, "kvs");
  if (kvs == nullptr) return range;
  for (const Json& kv : *kvs) {
    auto key = key_of(kv, prefix);
    auto value = bytes(kv, "value");
    if (!key || !value) return nonsense("has a record that is not understood");
    range.records.push_back({std::move(*key), std::move(*value)});
  }
  return range;
}

Result<std::string> txn_request(std::string_view prefix, const Transaction& transaction, std::int64_t lease) {
  if (transaction.expects.size() > kMaxExpectations || transaction.changes.size() > kMaxChanges) {
    return fail(
        E2BIG,
        fmt::format("a transaction of {} expectations and {} changes is too big for etcd, which takes "
                    "{} and {}: make smaller steps",
                    transaction.expects.size(), transaction.changes.size(), kMaxExpectations, kMaxChanges));
  }
  std::map<std::string_view, std::size_t> last;
  for (std::size_t at = 0; at < transaction.changes.size(); ++at) last[transaction.changes[at].key] = at;
  Json flat = Json::array();
  for (std::size_t at = 0; at < transaction.changes.size(); ++at) {
    const Change& change = transaction.changes[at];
    if (last[change.key] == at) flat.push_back(operation(prefix, change, lease));
  }
  Json request = {{"compare", Json::array()}, {"success", Json::array()}};
  for (const Expectation& expectation : transaction.expects) {
    request["compare"].push_back(comparison(prefix, expectation));
  }
  if (flat.size() <= kMaxOps) {
    request["success"] = std::move(flat);
  } else {
    for (std::size_t at = 0; at < flat.size(); ++at) {
      if (at % kMaxOps == 0) request["success"].push_back({{"request_txn", {{"success", Json::array()}}}});
      request["success"].back()["request_txn"]["success"].push_back(std::move(flat[at]));
    }
  }
  return text_of(request);
}

Result<bool> parse_txn(std::string_view text) {
  const Json answer = parse_object(text);
  if (!header_of(answer)) return nonsense("to a transaction is not understood");
  return flag(answer, "succeeded");
}

std::string grant_request(std::uint32_t ttl_s) {
  return text_of({{"TTL", std::to_string(ttl_s)}});
}

Result<LeaseState> parse_grant(std::string_view text) {
  auto lease = lease_of(parse_object(text));
  if (lease && (lease->id == 0 || lease->ttl_s <= 0)) return nonsense("grants no lease");
  return lease;
}

std::string lease_request(std::int64_t id) {
  return text_of({{"ID", std::to_string(id)}});
}

Result<LeaseState> parse_keep_alive(std::string_view text) {
  const Json line = parse_object(text);
  const Json* result = find(line, "result");
  if (result == nullptr) return nonsense("about a lease is not understood");
  return lease_of(*result);
}

Result<Status> parse_status(std::string_view text) {
  const Json answer = parse_object(text);
  const Json* header = find(answer, "header");
  const auto revision = header == nullptr ? std::nullopt : number<std::int64_t>(*header, "revision");
  const auto size = number<std::uint64_t>(answer, "dbSize");
  const auto used = number<std::uint64_t>(answer, "dbSizeInUse");
  if (!revision || !size || !used) return nonsense("about its state is not understood");
  Status status{.header = {.revision = *revision}, .size_bytes = *size, .used_bytes = *used};
  if (const Json* errors = find(answer, "errors"); errors != nullptr && errors->is_array()) {
    for (const Json& error : *errors) {
      if (error.is_string()) status.errors += (status.errors.empty() ? "" : ", ") + error.get<std::string>();
    }
  }
  return status;
}

std::string compaction_request(std::int64_t revision) {
  return text_of({{"revision", std::to_string(revision)}});
}

std::string authenticate_request(const std::string& user, const std::string& password) {
  return text_of({{"name", user}, {"password", password}});
}

Result<std::string> parse_authenticate(std::string_view text) {
  std::string token = words(parse_object(text), "token");
  // The token goes into a header.
  for (const char c : token) {
    if (c <= ' ' || c > '~') token.clear();
  }
  if (token.empty()) return nonsense("has no token");
  return token;
}

std::string watch_request(std::string_view prefix, std::int64_t first_revision) {
  return text_of({{"create_request",
                   {{"key", to_base64(first_of(prefix))},
                    {"range_end", to_base64(end_of(prefix))},
                    {"start_revision", std::to_string(first_revision)}}}});
}

Result<WatchLine> parse_watch(std::string_view prefix, std::string_view line) {
  const Json json = parse_object(line);
  const Json* result = find(json, "result");
  if (result == nullptr) return nonsense("to a watch is not understood");
  const auto compact_revision = number<std::int64_t>(*result, "compact_revision");
  if (!header_of(*result) || !compact_revision) return nonsense("to a watch is not understood");
  WatchLine parsed{flag(*result, "created"),
                   flag(*result, "canceled"),
                   *compact_revision != 0,
                   words(*result, "cancel_reason"),
                   {}};
  const Json* events = find(*result, "events");
  if (events == nullptr) return parsed;
  for (const Json& event : *events) {
    auto change = event_of(event, prefix);
    if (!change) return nonsense("has an event that is not understood");
    parsed.events.push_back(std::move(*change));
  }
  return parsed;
}

std::optional<ServerError> parse_error(std::string_view text) {
  const Json answer = parse_object(text);
  const Json* error = find(answer, "error");
  if (error == nullptr) return std::nullopt;
  const bool nested = error->is_object();
  const auto code = nested ? number<int>(*error, "grpc_code") : number<int>(answer, "code");
  std::string message = words(nested ? *error : answer, "message");
  if (message.empty() && error->is_string()) message = error->get<std::string>();
  if (!code || message.empty()) return std::nullopt;
  return ServerError{static_cast<Code>(*code), std::move(message)};
}

}  // namespace pvrdma::control::etcd
