#include "capture/capture.h"

#include <algorithm>
#include <utility>

namespace pvrdma::capture {
namespace {

std::uint64_t packets_of(const Record& record) {
  if (record.kind == Kind::kDatagram) return 1;
  std::uint64_t count = 0;
  for_each_packet(record.offset(), record.bytes(), abi::mtu_bytes(record.mtu),
                  [&count](std::uint32_t, std::uint32_t) { ++count; });
  return count;
}

// Only the tap holds the capture: its reader is gone, or its start failed. It will never get another reader.
bool has_no_reader(const std::shared_ptr<Capture>& capture) {
  return capture.use_count() == 1;
}

}  // namespace

std::shared_ptr<Capture> Capture::create(std::shared_ptr<ReaperQueue> queue, std::uint32_t snap) {
  return {new Capture(snap), [queue = std::move(queue)](Capture* capture) {
            queue->release(std::unique_ptr<Reapable>(capture));
          }};
}

Tap::~Tap() {
  port_.observe(nullptr);
  for (const auto& capture : captures_) capture->adapter_gone = true;
}

bool Tap::add(std::shared_ptr<Capture> capture) {
  std::erase_if(captures_, has_no_reader);
  if (captures_.size() == kCapturesMax) return false;
  captures_.push_back(std::move(capture));
  port_.observe(this);
  return true;
}

void Tap::remove(const Capture& capture) {
  std::erase_if(captures_, [&capture](const auto& each) { return each.get() == &capture; });
  if (captures_.empty()) port_.observe(nullptr);
}

bool Tap::is_read() const {
  return !std::ranges::all_of(captures_, has_no_reader);
}

void Tap::on_request(verbs::Direction direction, const verbs::Request& request,
                     const guestmem::SpanList* payload, abi::Mtu mtu, Instant now) {
  Record record{.kind = Kind::kRequest, .direction = direction, .mtu = mtu, .time = now, .request = request};
  keep(record, payload);
}

void Tap::on_response(verbs::Direction direction, const verbs::Response& response,
                      const verbs::Answered& answered, const guestmem::SpanList* payload, abi::Mtu mtu,
                      Instant now) {
  Record record{.kind = Kind::kResponse,
                .direction = direction,
                .mtu = mtu,
                .time = now,
                .response = response,
                .answered = answered};
  keep(record, payload);
}

void Tap::on_datagram(verbs::Direction direction, const verbs::Datagram& datagram,
                      const guestmem::SpanList& payload, Instant now) {
  Record record{.kind = Kind::kDatagram,
                .direction = direction,
                .mtu = abi::Mtu::k4096,
                .time = now,
                .datagram = datagram};
  keep(record, &payload);
}

void Tap::keep(Record& record, const guestmem::SpanList* payload) {
  if (record.bytes() > verbs::kPieceBytesMax) return;  // the engine drops such a message
  record.path = port_.fabric_switch().kind_to(record.peer().gid, &port_);
  for (const auto& capture : captures_) {
    if (has_no_reader(capture)) continue;
    if (capture->ring.put(record, payload, capture->snap_bytes)) continue;
    capture->lost_frames.fetch_add(packets_of(record), std::memory_order_relaxed);
  }
}

}  // namespace pvrdma::capture
