#include "pvrdmactl/capture_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kBlockBytesMin = 12;
constexpr std::size_t kBlockBytesMax = 1024 * 1024;
constexpr std::uint32_t kStatistics = 5;
constexpr std::uint32_t kFrame = 6;
constexpr std::size_t kStatisticsOptions = 20;
constexpr std::uint16_t kDropped = 5;
constexpr mode_t kMode = 0600;

// The number has the daemon's byte order, which is the same on all supported machines.
template <typename T>
T number_at(std::string_view bytes, std::size_t at) {
  T value = 0;
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

Result<void> CaptureFile::take(std::string_view bytes) {
  rest_.append(bytes);
  std::size_t whole = 0;
  while (rest_.size() - whole >= kBlockBytesMin) {
    const std::string_view left = std::string_view(rest_).substr(whole);
    const auto length = number_at<std::uint32_t>(left, 4);
    if (length < kBlockBytesMin || length > kBlockBytesMax || length % 4 != 0)
      return fail("the daemon's answer is not a pcapng file: is it another version?");
    if (left.size() < length) break;
    count(left.substr(0, length));
    whole += length;
  }
  if (whole == 0) return {};
  auto written = write(std::string_view(rest_).substr(0, whole));
  rest_.erase(0, whole);
  return written;
}

void CaptureFile::count(std::string_view block) {
  const auto type = number_at<std::uint32_t>(block, 0);
  if (type == kFrame) ++frames_;
  // Only the first interface's statistics have the number of lost frames.
  if (type != kStatistics || number_at<std::uint32_t>(block, 8) != 0) return;
  for (std::size_t at = kStatisticsOptions; at + 4 <= block.size();) {
    const auto code = number_at<std::uint16_t>(block, at);
    const auto length = number_at<std::uint16_t>(block, at + 2);
    if (code == 0) return;
    if (code == kDropped && length == sizeof lost_frames_)
      lost_frames_ = number_at<std::uint64_t>(block, at + 4);
    at += 4 + (std::size_t{length} + 3) / 4 * 4;
  }
}

Result<void> CaptureFile::write(std::string_view blocks) {
  int fd = STDOUT_FILENO;
  if (path_ != "-") {
    if (!file_) file_ = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
    if (!file_) return fail_errno(errno, fmt::format("cannot make the file {}", path_));
    fd = file_.get();
  }
  while (!blocks.empty()) {
    const ssize_t put = ::write(fd, blocks.data(), blocks.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      return fail_errno(errno, fmt::format("cannot write to {}", path_ == "-" ? "standard output" : path_));
    blocks.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

}  // namespace pvrdma::ctl
