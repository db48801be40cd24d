#include "device/print_state.h"

#include "device/describe.h"
#include "state/printer.h"
#include "verbs/print_state.h"

namespace pvrdma::device {
namespace {

template <typename Saved>
void print(state::Printer& printer, std::string_view title) {
  printer.title(title);
  Saved saved{};
  describe(printer, saved);
}

void print_record(state::Printer& printer, const state::Reader::Record& record) {
  const state::RecordKind kind = record.kind;
  if (kind == kIdentityRecord) return print<SavedIdentity>(printer, "identity");
  if (kind == kPciRecord) return print<PciState>(printer, "PCI");
  if (kind == kRegistersRecord) return print<SavedRegisters>(printer, "registers");
  if (kind == kInterruptsRecord) return print<SavedInterrupts>(printer, "interrupts");
  if (kind == kDriverRecord) return print<SavedDriver>(printer, "driver");
  if (kind == kEventRingsRecord) return print<SavedEventRings>(printer, "event rings");
  if (kind == kDoorbellsRecord) return print<SavedDoorbells>(printer, "doorbell pages");
  if (kind == kRatesRecord) return print<SavedRates>(printer, "rates of commands and doorbells");
  if (kind == kDeviceCountersRecord) return print<Counters>(printer, "counters of the device");
  verbs::print_record(printer, record);
}

}  // namespace

std::string print_state(std::span<const std::byte> stream) {
  state::Printer printer(stream);
  while (const auto record = printer.next()) print_record(printer, *record);
  const Result<> result = printer.result();
  return printer.text() + (result ? std::string() : result.error().message + "\n");
}

}  // namespace pvrdma::device
