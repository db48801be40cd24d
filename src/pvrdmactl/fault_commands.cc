// "fault ...": faults injected into an adapter's output, for tests.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

std::string probability_at(const Json& fault, const char* key) {
  return fmt::format("{}", fault.at(key).get<double>());
}

std::string fault_text(const Json& fault) {
  Properties properties("Fault " + digits_at(fault, "id"));
  properties.add("Adapter", text_at(fault, "adapter"));
  properties.add("Seed", digits_at(fault, "seed"));
  return properties.text();
}

// Each fault's options and their effect: in "0.01: 7", 0.01 is the probability and 7 how often the fault has
// occurred.
Table fault_list(const Json& list) {
  Table table({{"ID", Align::kRight},
               {"Adapter"},
               {"Seed", Align::kRight},
               {"Messages", Align::kRight},
               {"Drop", Align::kRight},
               {"Duplicate", Align::kRight},
               {"Delay", Align::kRight},
               {"Reorder", Align::kRight},
               {"Corrupt", Align::kRight},
               {"Late ms", Align::kRight}});
  for (const Json& fault : list) {
    const Json& counts = fault.at("counts");
    const auto kind = [&](const char* key, const char* count) {
      return fmt::format("{}: {}", probability_at(fault, key), number_at(counts, count));
    };
    table.add({digits_at(fault, "id"), text_at(fault, "adapter"), digits_at(fault, "seed"),
               digits_at(counts, "messages"), kind("drop", "dropped"), kind("duplicate", "duplicated"),
               kind("delay", "delayed"), kind("reorder", "reordered"), kind("corrupt", "corrupted"),
               digits_at(fault, "late_ms")});
  }
  return table;
}

// Finds the fault for the request's path.
Result<void> find_fault(Values& values, const Ask& ask) {
  if (values.contains("all")) values.emplace("ID", "all");
  const auto adapter = values.find("adapter");
  if (adapter == values.end()) return {};
  const auto faults = ask("/v1/faults?adapter=" + adapter->second);
  if (!faults) return Failure(faults.error());
  if (faults->empty()) {
    return fail(fmt::format("adapter {} has no fault: see pvrdmactl fault list", adapter->second));
  }
  values.emplace("ID", digits_at(faults->at(0), "id"));
  return {};
}

Argument chance(std::string name, std::string help) {
  std::string member = "/" + name;
  return {.name = std::move(name),
          .kind = Kind::kProbability,
          .help = std::move(help),
          .member = std::move(member)};
}

}  // namespace

Section fault_commands() {
  return {.namespaces = {{"fault", "faults injected into an adapter's outgoing messages, for tests"}},
          .commands = {
              {.words = "fault add",
               .help = "inject faults into an adapter's outgoing messages, each by its probability",
               .arguments = {{.name = "adapter",
                              .help = "the adapter",
                              .required = true,
                              .member = "/adapter",
                              .names = Names::kAdapters},
                             chance("drop", "a message is lost"),
                             chance("duplicate", "it comes twice"),
                             chance("delay", "it is late, and so are all messages after it"),
                             chance("reorder", "it is late, and later messages overtake it"),
                             chance("corrupt", "it is damaged, and lost from there on"),
                             {.name = "late-ms",
                              .kind = Kind::kNumber,
                              .help = "how late at most; default: 1",
                              .shows = "ms",
                              .member = "/late_ms"},
                             {.name = "seed",
                              .kind = Kind::kNumber,
                              .help = "the same seed gives the same faults; default: random",
                              .member = "/seed"}},
               .method = Method::kPost,
               .path = "/v1/faults",
               .text = fault_text},
              {.words = "fault list",
               .help = "list the faults and how often each kind has occurred",
               .arguments = {{.name = "adapter", .help = "only this adapter's", .names = Names::kAdapters},
                             other_host()},
               .path = "/v1/faults?adapter={adapter}",
               .table = fault_list},
              {.words = "fault remove",
               .help = "remove one fault, or all",
               .arguments = {{.name = "ID",
                              .positional = true,
                              .help = "the fault, as listed",
                              .required = true,
                              .member = "/fault"},
                             {.name = "adapter",
                              .help = "this adapter's",
                              .required = true,
                              .member = "/fault",
                              .names = Names::kAdapters},
                             {.name = "all",
                              .kind = Kind::kFlag,
                              .help = "all of this host",
                              .required = true,
                              .constant = "true",
                              .member = "/fault"}},
               .method = Method::kDelete,
               .path = "/v1/faults/{ID}",
               .complete = find_fault}}};
}

}  // namespace pvrdma::ctl
