// RecordedEvents: the events that an object raised, as texts in their order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/events.h"

namespace pvrdma::verbs {

class RecordedEvents final : public EventSink {
 public:
  void completion_event(CqHandle cq) override { seen.push_back("completion " + std::to_string(cq.value)); }
  void async_event(abi::EventType type, std::uint32_t info) override {
    seen.push_back("async " + std::to_string(static_cast<std::uint32_t>(type)) + " " + std::to_string(info));
  }
  void qp_failed(Qpn, std::string_view) override { seen.push_back("qp failed"); }

  std::vector<std::string> seen;
};

}  // namespace pvrdma::verbs
