#include "adapters/shard_captures.h"

#include <chrono>
#include <fmt/core.h>
#include <thread>

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

// One of the kCapturesMax captures that may exist.
class ShardCaptures::Place {
 public:
  explicit Place(std::atomic<std::size_t>& taken)
      : taken_(taken), held_(taken.fetch_add(1) < capture::kCapturesMax) {
    if (!held_) taken.fetch_sub(1);
  }
  ~Place() {
    if (held_) taken_.fetch_sub(1);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool held() const { return held_; }

 private:
  std::atomic<std::size_t>& taken_;
  const bool held_;
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
    for (int look = 0; look < kLooks; ++look) {
      if (look != 0) std::this_thread::sleep_for(kLookEvery);
      if (!reader_.read(out, Instant::now())) return false;
      if (!out.empty()) break;
    }
    return true;
  }

 private:
  ShardCaptures& captures_;
  const std::unique_ptr<Place> place_;
  const std::string adapter_;
  const std::shared_ptr<capture::Capture> capture_;
  capture::Reader reader_;
};

Result<std::unique_ptr<ByteStream>> ShardCaptures::start(const CaptureWish& wish) {
  auto filter = capture::Filter::parse(wish.filter);
  if (!filter) return Failure(std::move(filter).error());
  auto place = std::make_unique<Place>(taken_);
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

}  // namespace pvrdma::adapters
