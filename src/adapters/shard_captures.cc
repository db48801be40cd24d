#include "adapters/shard_captures.h"

#include <chrono>
#include <ctime>
#include <fmt/core.h>
#include <thread>

#include "base/no_such.h"
#include "capture/capture.h"
#include "capture/filter.h"
#include "capture/reader.h"

namespace pvrdma::adapters {
namespace {

// How often the reader looks at a capture's ring. The shard does not wake the reader: that would take a
// system call.
constexpr std::chrono::milliseconds kLookEvery{2};
constexpr int kLooks = 50;

}  // namespace

// One of the kCapturesMax captures that may exist, and its entry in the list.
class ShardCaptures::Place {
 public:
  Place(ShardCaptures& captures, const CaptureWish& wish) : captures_(captures) {
    const std::lock_guard lock(captures_.mutex_);
    if (captures_.running_.size() >= capture::kCapturesMax) return;
    const std::uint64_t id = captures_.last_id_ + 1;
    const auto now_s = static_cast<std::uint64_t>(std::time(nullptr));
    captures_.running_.emplace(id, Running{.state = {wish, id, now_s, 0, 0}});
    captures_.last_id_ = id;
    id_ = id;
  }
  ~Place() {
    const std::lock_guard lock(captures_.mutex_);
    captures_.running_.erase(id_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool held() const { return id_ != 0; }
  bool is_ended() const {
    const std::lock_guard lock(captures_.mutex_);
    return captures_.running_.at(id_).is_ended;
  }
  void count(std::size_t sent_bytes, std::uint64_t dropped) {
    const std::lock_guard lock(captures_.mutex_);
    CaptureState& state = captures_.running_.at(id_).state;
    state.sent_bytes += sent_bytes;
    state.dropped = dropped;
  }

 private:
  ShardCaptures& captures_;
  std::uint64_t id_ = 0;  // 0: all places are taken
};

// The client's stream. Its destructor detaches the capture from the adapter, if the adapter still exists. If
// the shard does not answer, the capture goes on without a reader: that costs little and ends with the
// adapter or the next capture.
class ShardCaptures::Stream final : public ByteStream {
 public:
  Stream(ShardCaptures& captures, std::unique_ptr<Place> place, std::shared_ptr<capture::Capture> capture,
         capture::ReaderOptions options)
      : captures_(captures),
        place_(std::move(place)),
        adapter_(options.adapter),
        capture_(capture),
        reader_(std::move(capture), std::move(options), Instant::now(), std::chrono::system_clock::now()) {}
  ~Stream() override {
    static_cast<void>(captures_.shards_.on(
        adapter_,
        [capture = capture_](ServedAdapter& served) -> Result<void> {
          served.tap().remove(*capture);
          return {};
        },
        "ending a capture"));
  }

  bool read(std::string& out) override {
    const std::size_t before = out.size();
    const bool goes_on = fill(out);
    place_->count(out.size() - before, capture_->lost_frames);
    return goes_on;
  }

 private:
  // False: the file is complete.
  bool fill(std::string& out) {
    for (int look = 0; look < kLooks; ++look) {
      if (look != 0) std::this_thread::sleep_for(kLookEvery);
      const Instant now = Instant::now();
      if (place_->is_ended()) reader_.end_at(now);  // only the first of these counts: it is the earliest
      if (!reader_.read(out, now)) return false;
      if (!out.empty()) break;
    }
    return true;
  }

  ShardCaptures& captures_;
  const std::unique_ptr<Place> place_;
  const std::string adapter_;
  const std::shared_ptr<capture::Capture> capture_;
  capture::Reader reader_;
};

Result<std::unique_ptr<ByteStream>> ShardCaptures::start(const CaptureWish& wish) {
  auto filter = capture::Filter::parse(wish.filter);
  if (!filter) return Failure(std::move(filter).error());
  auto place = std::make_unique<Place>(*this, wish);
  const auto too_many = [] {
    return fail(ErrorKind::kConflict,
                fmt::format("there are {} captures already: end one of them", capture::kCapturesMax));
  };
  if (!place->held()) return too_many();

  capture::ReaderOptions options{.adapter = wish.adapter,
                                 .application = "pvrdmad " + version_,
                                 .filter = *std::move(filter),
                                 .frames_max = wish.frames_max};
  if (wish.seconds != 0) options.duration = std::chrono::seconds(wish.seconds);
  const auto capture = capture::Capture::create(reaper_.open_queue(), wish.snap_bytes);
  struct Begun {
    bool added = false;
    Mac mac;
    RoceVersion version{};
  };
  const auto begun = shards_.on(
      wish.adapter,
      [capture](ServedAdapter& served) -> Result<Begun> {
        const device::AdapterInfo info = served.adapter().info();
        return Begun{served.tap().add(capture), info.mac, info.roce};
      },
      "beginning a capture");
  if (!begun) return Failure(begun.error());
  if (!begun->added) return too_many();
  options.mac = begun->mac;
  options.version = begun->version;
  return std::make_unique<Stream>(*this, std::move(place), capture, std::move(options));
}

std::vector<CaptureState> ShardCaptures::list() {
  const std::lock_guard lock(mutex_);
  std::vector<CaptureState> states;
  for (const auto& [id, running] : running_) states.push_back(running.state);
  return states;
}

Result<void> ShardCaptures::end(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(id);
  if (found == running_.end()) return Failure(no_such("capture", std::to_string(id), "adapter capture"));
  found->second.is_ended = true;
  return {};
}

}  // namespace pvrdma::adapters
