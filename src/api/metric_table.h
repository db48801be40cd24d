// The metrics of GET /metrics: one row for each, sorted by name. The exposition (metrics.h) has only metrics
// of this table. tools/check compares the table with docs/metrics.md and with the examples for Prometheus and
// Grafana. Names and units follow Prometheus' conventions: base units, which the name ends with, and "_total"
// behind the unit of a counter. Thread: values.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pvrdma::api {

enum class MetricType : std::uint8_t { kCounter, kGauge };

struct MetricInfo {
  std::string_view name;
  MetricType type;
  std::string_view unit;    // "bytes", "seconds"; empty: a number of things
  std::string_view labels;  // names, with commas between them
  std::string_view help;    // one line without a full stop, backslash or quotation mark
};

std::span<const MetricInfo> metric_table();

}  // namespace pvrdma::api
