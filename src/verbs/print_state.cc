#include "verbs/print_state.h"

#include "verbs/describe.h"

namespace pvrdma::verbs {
namespace {

template <typename Saved>
void print(state::Printer& printer) {
  Saved saved{};
  describe(printer, saved);
}

}  // namespace

void print_record(state::Printer& printer, const state::Reader::Record& record) {
  const state::RecordKind kind = record.kind;
  if (kind == kTablesRecord) return print<SavedTables>(printer);
  if (kind == kPdRecord) return print<SavedPd>(printer);
  if (kind == kMrSlotsRecord) return print<SavedMrSlots>(printer);
  if (kind == kMrRecord) return print<SavedMr>(printer);
  if (kind == kCqRecord) return print<SavedCq>(printer);
  if (kind == kSrqRecord) return print<SavedSrq>(printer);
  if (kind == kQpRecord) return print<SavedQp>(printer);
  if (kind == kGidRecord) return print<SavedGid>(printer);
  if (kind == kCountersRecord) return print<Counters>(printer);
  if (kind == kEngineEndRecord) return print<SavedCounts>(printer);
  printer.skip(record);
}

std::string print_state(std::span<const std::byte> stream) {
  state::Printer printer(stream);
  while (const auto record = printer.next()) print_record(printer, *record);
  const Result<> result = printer.result();
  return printer.text() + (result ? std::string() : result.error().message + "\n");
}

}  // namespace pvrdma::verbs
