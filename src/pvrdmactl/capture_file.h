// CaptureFile: takes the pcapng file that the daemon sends, in pieces cut anywhere, and writes it in whole
// blocks, so that a file is right whenever its end comes. Counts its frames and what the daemon says was
// lost.
//
// The file is made when the first block is there: a refused capture leaves none. Its mode is 0600, for it has
// guests' memory in it. Thread: one at a time.
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

  // Errors: the file cannot be written; the bytes are no pcapng.
  Result<void> take(std::string_view bytes);

  std::uint64_t frames() const { return frames_; }
  std::uint64_t lost_frames() const { return lost_frames_; }

 private:
  Result<void> write(std::string_view blocks);
  void count(std::string_view block);

  const std::string path_;
  Fd file_;
  std::string rest_;  // of a block that is not whole yet
  std::uint64_t frames_ = 0;
  std::uint64_t lost_frames_ = 0;
};

}  // namespace pvrdma::ctl
