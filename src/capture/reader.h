// Reader: makes a pcapng file, piece by piece, of what a capture's ring brings. One interface for each kind
// of path, which says in its name by what the messages went and in its description that the frames are
// synthesised.
//
// Thread: one at a time; not the shard's.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "capture/filter.h"
#include "capture/synthesis.h"

namespace pvrdma::capture {

struct ReaderOptions {
  std::string adapter;
  Mac mac;
  RoceVersion version = RoceVersion::kV2;
  std::string application;  // "pvrdmad 1.0"
  Filter filter;
  std::uint64_t frames_max = 0;      // 0: any number
  std::optional<Duration> duration;  // none: for ever
};

class Reader {
 public:
  // The file's time is wall-clock time, of which `now` is as much as `wall`.
  Reader(std::shared_ptr<Capture> capture, ReaderOptions options, Instant now,
         std::chrono::system_clock::time_point wall);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Appends what there is by `now`, some MiB at most. False: that was the end of the file: frames_max or
  // duration are reached, or the adapter is gone.
  bool read(std::string& out, Instant now);

 private:
  static constexpr Duration kStatisticsEvery = std::chrono::seconds(1);
  static constexpr std::size_t kBytesAtOnce = 1024 * 1024;

  void begin(std::string& out);
  void add(const Record& record, std::string& out);
  void add_statistics(std::string& out, Instant now);
  std::uint64_t wall_ns(Instant time) const;

  const std::shared_ptr<Capture> capture_;
  const ReaderOptions options_;
  const Instant started_;
  const std::chrono::nanoseconds wall_offset_;
  Synthesis synthesis_;
  bool begun_ = false;
  bool ended_ = false;
  Instant statistics_due_;
  std::uint64_t frames_ = 0;
  std::array<std::uint64_t, transport::kPathKinds> received_{};
  std::vector<std::byte> payload_;
};

}  // namespace pvrdma::capture
