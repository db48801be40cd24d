// The requests to etcd's JSON gateway (3.4 and later, /v3/...), and its answers. No I/O.
//
// Keys and values are base64, 64-bit numbers are JSON strings, and members with default values are omitted.
// Keys in this interface are without `prefix`; the JSON texts have it. The size of a text bounds everything
// parsed from it, and its depth must be small. An error is a clause about the text ("its answer is no JSON").
// Thread: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/store/store.h"

namespace pvrdma::control::etcd {

// The values of google.rpc.Code that are treated differently.
enum class Code : int {
  kNone = 0,
  kCanceled = 1,
  kUnknown = 2,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kPermissionDenied = 7,
  kFailedPrecondition = 9,
  kOutOfRange = 11,  // the revision is compacted, or in the future
  kInternal = 13,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

struct ServerError {
  Code code = Code::kNone;
  std::string message;
};

struct Header {
  std::uint64_t cluster_id = 0;
  std::int64_t revision = 0;
};

// A transaction with more operations is split into nested ones, because etcd limits each level
// (--max-txn-ops=128).
inline constexpr std::size_t kMaxOps = 64;
inline constexpr std::size_t kMaxExpectations = 128;
inline constexpr std::size_t kMaxChanges = kMaxOps * kMaxOps;

// Asks for keys above `after` (empty: all), at most `limit` (0: no keys, only the header) at `revision` (0:
// now).
std::string range_request(std::string_view prefix, const std::optional<std::string>& after, int limit,
                          std::int64_t revision);
struct Range {
  Header header;
  std::vector<KeyValue> records;
  bool more = false;
};
Result<Range> parse_range(std::string_view prefix, std::string_view text);

// If a key is changed twice, only the last change is sent, because etcd refuses two. Error E2BIG: too many
// changes.
Result<std::string> txn_request(std::string_view prefix, const Transaction& transaction, std::int64_t lease);
Result<bool> parse_txn(std::string_view text);  // true: the expectations held

struct LeaseState {
  std::int64_t id = 0;
  std::int64_t ttl_s = 0;  // 0: the lease does not exist (any more)
};
std::string grant_request(std::uint32_t ttl_s);
Result<LeaseState> parse_grant(std::string_view text);
std::string lease_request(std::int64_t id);  // to keep it alive or to revoke it
Result<LeaseState> parse_keep_alive(std::string_view text);

struct Status {
  Header header;
  std::uint64_t size_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::string errors;  // alarms of the member, separated by commas
};
Result<Status> parse_status(std::string_view text);
std::string compaction_request(std::int64_t revision);

std::string authenticate_request(const std::string& user, const std::string& password);
Result<std::string> parse_authenticate(std::string_view text);  // returns the token

std::string watch_request(std::string_view prefix, std::int64_t first_revision);
struct Event {
  std::int64_t revision = 0;
  Change change;
};
struct WatchLine {
  bool created = false;
  bool canceled = false;
  bool compacted = false;
  std::string cancel_reason;
  std::vector<Event> events;  // ascending by revision, as etcd sends them
};
Result<WatchLine> parse_watch(std::string_view prefix, std::string_view line);

// {"error": ..., "message": ..., "code": 5}, or a stream's {"error": {"grpc_code": 5, "message": ...}}.
std::optional<ServerError> parse_error(std::string_view text);

}  // namespace pvrdma::control::etcd
