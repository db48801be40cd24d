#include "verbs/print_state.h"

#include "verbs/describe.h"

namespace pvrdma::verbs {
namespace {

template <typename Saved>
void print(state::Printer& printer, std::string_view title) {
  printer.title(title);
  Saved saved{};
  describe(printer, saved);
}

}  // namespace

void print_record(state::Printer& printer, const state::Reader::Record& record) {
  const state::RecordKind kind = record.kind;
  if (kind == kTablesRecord) return print<SavedTables>(printer, "tables");
  if (kind == kPdRecord) return print<SavedPd>(printer, "PD");
  if (kind == kMrSlotsRecord) return print<SavedMrSlots>(printer, "slots of MRs");
  if (kind == kMrRecord) return print<SavedMr>(printer, "MR");
  if (kind == kCqRecord) return print<SavedCq>(printer, "CQ");
  if (kind == kSrqRecord) return print<SavedSrq>(printer, "SRQ");
  if (kind == kQpRecord) return print<SavedQp>(printer, "QP");
  if (kind == kGidRecord) return print<SavedGid>(printer, "GID");
  if (kind == kCountersRecord) return print<Counters>(printer, "counters of the engine");
  if (kind == kEngineEndRecord) return print<SavedCounts>(printer, "end of the engine");
  printer.skip(record);
}

std::string print_state(std::span<const std::byte> stream) {
  state::Printer printer(stream);
  while (const auto record = printer.next()) print_record(printer, *record);
  const Result<> result = printer.result();
  return printer.text() + (result ? std::string() : result.error().message + "\n");
}

}  // namespace pvrdma::verbs
