#include "control/metrics.h"

#include <fmt/format.h>
#include <iterator>
#include <map>

namespace pvrdma::control {
namespace {

// All samples of one metric stand together, under its TYPE: the format wants it so. Adapter names need no
// escaping (config.h says what they are made of), and neither do the states.
class Exposition {
 public:
  void counter(std::string_view group, const Counter& counter, std::string_view labels) {
    add(fmt::format("pvrdma_{}_{}_total", group, counter.name), "counter", labels, counter.value);
  }
  void gauge(std::string_view name, std::string_view labels, std::uint64_t value) {
    add(fmt::format("pvrdma_{}", name), "gauge", labels, value);
  }
  std::string text() const {
    std::string all;
    for (const auto& [name, metric] : metrics_) {
      fmt::format_to(std::back_inserter(all), "# TYPE {} {}\n{}", name, metric.type, metric.samples);
    }
    return all;
  }

 private:
  struct Metric {
    std::string_view type;
    std::string samples;
  };

  void add(const std::string& name, std::string_view type, std::string_view labels, std::uint64_t value) {
    Metric& metric = metrics_[name];
    metric.type = type;
    fmt::format_to(std::back_inserter(metric.samples), "{}{} {}\n", name, labels, value);
  }

  std::map<std::string, Metric> metrics_;
};

}  // namespace

std::string metrics_text(const Snapshot& snapshot, std::string_view version) {
  Exposition exposition;
  exposition.gauge("build_info", fmt::format("{{version=\"{}\"}}", version), 1);
  for (const AdapterSnapshot& adapter : snapshot.adapters) {
    const std::string label = fmt::format("{{adapter=\"{}\"}}", adapter.name);
    exposition.gauge("adapter_state",
                     fmt::format("{{adapter=\"{}\",state=\"{}\"}}", adapter.name, adapter.state), 1);
    for (const Gauge& object : adapter.objects) {
      exposition.gauge("adapter_objects",
                       fmt::format("{{adapter=\"{}\",kind=\"{}\"}}", adapter.name, object.name),
                       object.value);
    }
    for (const CounterGroup& group : adapter.groups) {
      for (const Counter& counter : group.counters) exposition.counter(group.name, counter, label);
    }
  }
  for (const CounterGroup& group : snapshot.host) {
    for (const Counter& counter : group.counters) exposition.counter(group.name, counter, "");
  }
  return exposition.text();
}

}  // namespace pvrdma::control
