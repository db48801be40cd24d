// Reader: turns the records of a capture's ring into a pcapng file, piece by piece. The file has one
// interface for each kind of path. The interface's name gives the path of the messages, and its description
// says that the frames are synthesised.
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
  std::optional<Duration> duration;  // empty: no limit
};

class Reader {
 public:
  // The file has wall-clock times: `wall` is the wall-clock time at `now`.
  Reader(std::shared_ptr<Capture> capture, ReaderOptions options, Instant now,
         std::chrono::system_clock::time_point wall);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Appends what has arrived by `now`, at most some MiB. False: the file is complete, because frames_max or
  // its end is reached or the adapter is gone.
  bool read(std::string& out, Instant now);
  // Ends the file at `end`, unless it ends earlier. read() still appends the messages before `end`.
  void end_at(Instant end);

 private:
  static constexpr Duration kStatisticsEvery = std::chrono::seconds(1);
  static constexpr std::size_t kBytesAtOnce = 1024 * 1024;

  void begin(std::string& out);
  void add(const Record& record, std::string& out);
  void add_statistics(std::string& out, Instant now);
  std::uint64_t wall_ns(Instant time) const;

  const std::shared_ptr<Capture> capture_;
  const ReaderOptions options_;
  std::optional<Instant> ends_;  // messages from then on are not in the file; empty: no limit
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
