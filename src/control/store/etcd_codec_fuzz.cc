// Fuzzes the decoders of answers from etcd's gateway, or from anything that answers in its place: ranges,
// transactions, leases, tokens, watches, errors.
//
// Input: the length of a prefix@0:1, the prefix, then the text of an answer. The fuzzer checks: nothing
// crashes, a refusal has a reason, a result is no larger than its text, and a record that was read can be
// written again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "control/store/etcd_codec.h"
#include "support/fuzz_input.h"

namespace pvrdma::control::etcd {
namespace {

template <typename T>
bool understood(const Result<T>& parsed) {
  PVRDMA_CHECK(parsed || !parsed.error().message.empty(), "a refusal says why");
  return parsed.has_value();
}

void check_range(std::string_view prefix, std::string_view text) {
  const auto range = parse_range(prefix, text);
  if (!understood(range)) return;
  std::size_t bytes = 0;
  Transaction transaction;
  for (const KeyValue& record : range->records) {
    bytes += record.key.size() + record.value.size();
    transaction.changes.push_back({record.key, record.value});
    transaction.expects.push_back({record.key, record.value});
  }
  PVRDMA_CHECK(bytes <= text.size(), "records are in the text");
  PVRDMA_CHECK(range->header.revision < INT64_MAX, "a revision has a next one");
  if (transaction.changes.size() <= kMaxChanges && transaction.expects.size() <= kMaxExpectations) {
    PVRDMA_CHECK(txn_request(prefix, transaction, 1).has_value(), "what was read can be written");
  }
  if (!range->records.empty()) {
    PVRDMA_CHECK(!range_request(prefix, range->records.back().key, 1, range->header.revision).empty(),
                 "the next page can be asked for");
  }
}

void check_watch(std::string_view prefix, std::string_view text) {
  const auto line = parse_watch(prefix, text);
  if (!understood(line)) return;
  std::size_t bytes = 0;
  for (const Event& event : line->events) {
    bytes += event.change.key.size() + event.change.value.value_or("").size();
    PVRDMA_CHECK(event.revision < INT64_MAX, "a revision has a next one");
  }
  PVRDMA_CHECK(bytes <= text.size(), "changes are in the text");
}

}  // namespace
}  // namespace pvrdma::control::etcd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma::control::etcd;
  pvrdma::test::FuzzInput input(data, size);
  const auto raw = input.take_bytes(input.byte() % 16);
  const std::string_view prefix{reinterpret_cast<const char*>(raw.data()), raw.size()};
  const std::string_view text = input.rest_as_text();
  check_range(prefix, text);
  check_watch(prefix, text);
  understood(parse_txn(text));
  if (const auto grant = parse_grant(text); understood(grant)) {
    PVRDMA_CHECK(!lease_request(grant->id).empty(), "the lease can be named");
  }
  understood(parse_keep_alive(text));
  understood(parse_authenticate(text));
  understood(parse_status(text));
  if (const auto error = parse_error(text)) {
    // U+FFFD has 3 bytes.
    PVRDMA_CHECK(error->message.size() <= 3 * text.size(), "the message is in the text");
  }
  return 0;
}
