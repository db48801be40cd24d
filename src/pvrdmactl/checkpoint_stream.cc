#include "pvrdmactl/checkpoint_stream.h"

#include <cerrno>
#include <nlohmann/json.hpp>

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kLineBytesMax = 64u << 10;
constexpr std::uint64_t kStateBytesMax = 1u << 30;
constexpr std::uint64_t kPatienceMaxSeconds = 1u << 20;

Failure not_expected() {
  return fail("the daemon's answer is not that of a checkpoint: is it another version?");
}

}  // namespace

Result<void> CheckpointStream::take(std::string_view bytes) {
  rest_.append(bytes);
  while (!rest_.empty()) {
    if (state_bytes_ != 0) {
      if (rest_.size() < state_bytes_) return {};
      auto kept = handlers_.keep(line_, std::string_view(rest_).substr(0, state_bytes_));
      if (!kept) return kept;
      kept_ = true;
      rest_.erase(0, std::exchange(state_bytes_, 0));
      continue;
    }
    const auto end = rest_.find('\n');
    if (end == std::string::npos) return rest_.size() > kLineBytesMax ? not_expected() : Result<void>{};
    const std::string text = rest_.substr(0, end);
    rest_.erase(0, end + 1);
    if (auto taken = take_line(text); !taken) return taken;
  }
  return {};
}

Result<void> CheckpointStream::take_line(std::string_view text) {
  Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object() || !line.contains("error") || !line["error"].is_string() ||
      !line.contains("state_bytes") || !line["state_bytes"].is_number_unsigned())
    return not_expected();
  if (const auto error = line["error"].get<std::string>(); !error.empty()) return fail(ECANCELED, error);
  const auto bytes = line["state_bytes"].get<std::uint64_t>();
  if (bytes > kStateBytesMax || (bytes != 0 && kept_)) return not_expected();
  if (bytes == 0) {
    handlers_.progress(line);
  } else {
    const auto patience_s = line.find("patience_s");
    if (patience_s == line.end() || !patience_s->is_number_unsigned() || *patience_s > kPatienceMaxSeconds)
      return not_expected();
    state_bytes_ = static_cast<std::size_t>(bytes);
    line_ = std::move(line);
  }
  return {};
}

}  // namespace pvrdma::ctl
