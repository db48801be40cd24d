// CaptureFile: takes the pcapng file that the daemon sends, in pieces cut anywhere. It writes only whole
// blocks, so the file is valid wherever it ends. It counts the frames, and those that the daemon reports as
// lost.
//
// The file is created with the first block, so a refused capture leaves no file. Its mode is 0600, because it
// contains guests' memory. Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::ctl {

class CaptureFile {
 public:
  explicit CaptureFile(std::string path) : path_(std::move(path)) {}  // "-": standard output

  // Errors: the file cannot be written, or the bytes are not pcapng.
  Result<void> take(std::string_view bytes);

  std::uint64_t frames() const { return frames_; }
  std::uint64_t lost_frames() const { return lost_frames_; }

 private:
  Result<void> write(std::string_view blocks);
  void count(std::string_view block);

  const std::string path_;
  Fd file_;
  std::string rest_;  // the start of an incomplete block
  std::uint64_t frames_ = 0;
  std::uint64_t lost_frames_ = 0;
};

}  // namespace pvrdma::ctl
