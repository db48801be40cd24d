#include "pvrdmactl/event_lines.h"

#include <fmt/core.h>

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kEventBytesMax = 16u << 20;
constexpr std::string_view kEnd = "\n\n";
constexpr std::string_view kEvent = "event: ";
constexpr std::string_view kData = "\ndata: ";

}  // namespace

Result<std::string> EventLines::take(std::string_view piece) {
  // The end of an event may be cut in two.
  std::size_t from = rest_.empty() ? 0 : rest_.size() - 1;
  rest_.append(piece);
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t end = rest_.find(kEnd, from); end != std::string::npos; end = rest_.find(kEnd, from)) {
    const std::string_view event = std::string_view(rest_).substr(begin, end - begin);
    begin = from = end + kEnd.size();
    if (event.starts_with(':')) continue;  // a comment
    const std::size_t data = event.find(kData);
    if (!event.starts_with(kEvent) || data == std::string_view::npos)
      return fail("the daemon's answer is not a stream of events: is it another version?");
    lines +=
        fmt::format("{{\"event\":\"{}\",\"data\":{}}}\n", event.substr(kEvent.size(), data - kEvent.size()),
                    event.substr(data + kData.size()));
  }
  rest_.erase(0, begin);
  if (rest_.size() > kEventBytesMax)
    return fail("the daemon sends an event without an end: is it another version?");
  return lines;
}

}  // namespace pvrdma::ctl
