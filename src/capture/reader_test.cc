// Tests the reader: the blocks of its file, its ends, lost frames, and two captures of one adapter.
#include "capture/reader.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utility>

#include "capture/capture_fixture.h"
#include "fabric/fabric.h"

namespace pvrdma::capture {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using verbs::RequestOp;

constexpr std::uint32_t kSection = 0x0a0d0d0a;
constexpr std::uint32_t kInterface = 1;
constexpr std::uint32_t kStatistics = 5;
constexpr std::uint32_t kFrame = 6;

struct Block {
  std::uint32_t type;
  std::string body;

  template <typename T>
  T at(std::size_t place) const {
    T value{};
    std::memcpy(&value, body.data() + place, sizeof value);
    return value;
  }
};

std::vector<Block> blocks_of(const std::string& file) {
  std::vector<Block> blocks;
  for (std::size_t at = 0; at < file.size();) {
    std::uint32_t head[2];
    std::memcpy(head, file.data() + at, sizeof head);
    std::uint32_t tail = 0;
    std::memcpy(&tail, file.data() + at + head[1] - 4, sizeof tail);
    EXPECT_EQ(tail, head[1]);
    EXPECT_EQ(head[1] % 4, 0);
    blocks.push_back({head[0], file.substr(at + 8, head[1] - 12)});
    at += head[1];
  }
  return blocks;
}

std::vector<std::uint32_t> types_of(const std::string& file) {
  std::vector<std::uint32_t> types;
  for (const Block& block : blocks_of(file)) types.push_back(block.type);
  return types;
}

class ReaderTest : public testing::Test {
 protected:
  static constexpr Instant kStart{std::chrono::seconds(100)};

  std::unique_ptr<Reader> reader(ReaderOptions options = {}) {
    options.adapter = "VM-01";
    return std::make_unique<Reader>(capture, std::move(options), kStart,
                                    std::chrono::system_clock::time_point(std::chrono::seconds(1'000'000)));
  }
  static Filter filter(const std::string& text) { return Filter::parse(text).value(); }
  void put(Record record, std::size_t bytes = 0) {
    auto payload = pattern(bytes);
    const auto spans = spans_of(payload);
    record.time = now;
    ASSERT_TRUE(capture->ring.put(record, bytes == 0 ? nullptr : &spans, capture->snap_bytes));
  }
  std::string read(Reader& from, bool& more) {
    std::string out;
    more = from.read(out, now);
    return out;
  }
  std::string read(Reader& from) {
    bool more = true;
    return read(from, more);
  }

  std::shared_ptr<Capture> capture = std::make_shared<Capture>(262144, 1 << 20);
  Instant now = kStart;
};

TEST_F(ReaderTest, BeginsWithWhatItIsAndAnInterfaceForEachPath) {
  const auto made = reader();
  const std::string file = read(*made);
  EXPECT_THAT(types_of(file),
              ElementsAre(kSection, kInterface, kInterface, kInterface, kInterface, kInterface));
  EXPECT_THAT(file, HasSubstr("synthesised by pvrdmad"));
  for (const char* name : {"VM-01 none", "VM-01 local", "VM-01 tcp", "VM-01 hca", "VM-01 roce"})
    EXPECT_THAT(file, HasSubstr(name));
  EXPECT_TRUE(read(*made).empty());
}

TEST_F(ReaderTest, HasAFrameWithItsTimeInterfaceAndDirection) {
  const auto made = reader();
  read(*made);
  now = now + std::chrono::milliseconds(1500);
  put(request(RequestOp::kWrite, 8), 8);
  const auto blocks = blocks_of(read(*made));
  ASSERT_EQ(blocks[0].type, kFrame);
  EXPECT_EQ(blocks[0].at<std::uint32_t>(0), 1);  // local
  const std::uint64_t time =
      std::uint64_t{blocks[0].at<std::uint32_t>(4)} << 32 | blocks[0].at<std::uint32_t>(8);
  EXPECT_EQ(time, 1'000'001'500'000'000);
  const auto kept = blocks[0].at<std::uint32_t>(12);
  EXPECT_EQ(kept, 14 + 28 + 12 + 16 + 8 + 4);
  EXPECT_EQ(blocks[0].at<std::uint32_t>(16), kept);
  const std::size_t flags = 20 + (kept + 3) / 4 * 4 + 4;
  EXPECT_EQ(blocks[0].at<std::uint32_t>(flags), 2);  // outbound
}

TEST_F(ReaderTest, ShowsWhatTheFilterMatches) {
  const auto made = reader({.filter = filter("op write")});
  read(*made);
  put(request(RequestOp::kSend, 8), 8);
  put(request(RequestOp::kWrite, 8), 8);
  EXPECT_THAT(types_of(read(*made)), ElementsAre(kFrame));
}

TEST_F(ReaderTest, EndsAfterAsManyFramesAsAreWanted) {
  const auto made = reader({.frames_max = 2});
  read(*made);
  put(request(RequestOp::kWrite, 5000), 5000);
  bool more = true;
  EXPECT_THAT(types_of(read(*made, more)),
              ElementsAre(kFrame, kFrame, kStatistics, kStatistics, kStatistics, kStatistics, kStatistics));
  EXPECT_FALSE(more);
  EXPECT_TRUE(read(*made, more).empty());
}

TEST_F(ReaderTest, EndsWhenItsTimeIsOver) {
  const auto made = reader({.duration = std::chrono::seconds(3)});
  bool more = false;
  read(*made, more);
  EXPECT_TRUE(more);
  put(request(RequestOp::kWrite, 8), 8);
  now = now + std::chrono::seconds(3);
  put(request(RequestOp::kWrite, 8), 8);  // after the end
  EXPECT_THAT(types_of(read(*made, more)),
              ElementsAre(kFrame, kStatistics, kStatistics, kStatistics, kStatistics, kStatistics));
  EXPECT_FALSE(more);
}

TEST_F(ReaderTest, EndsEarlierIfItIsToldTo) {
  const auto made = reader({.duration = std::chrono::seconds(3)});
  read(*made);
  put(request(RequestOp::kWrite, 8), 8);
  now = now + std::chrono::seconds(1);
  made->end_at(now);
  put(request(RequestOp::kWrite, 8), 8);  // after the end
  made->end_at(now + std::chrono::seconds(1));
  bool more = true;
  EXPECT_THAT(types_of(read(*made, more)),
              ElementsAre(kFrame, kStatistics, kStatistics, kStatistics, kStatistics, kStatistics));
  EXPECT_FALSE(more);
}

TEST_F(ReaderTest, EndsWithTheAdapterAfterWhatCameBefore) {
  const auto made = reader();
  put(request(RequestOp::kWrite, 8), 8);
  capture->adapter_gone = true;
  bool more = true;
  EXPECT_THAT(read(*made, more), HasSubstr("VM-01 tcp"));
  EXPECT_FALSE(more);
}

TEST_F(ReaderTest, TellsEverySecondWhatWasLost) {
  const auto made = reader();
  read(*made);
  capture->lost_frames = 7;
  EXPECT_TRUE(read(*made).empty());
  now = now + std::chrono::seconds(1);
  const auto blocks = blocks_of(read(*made));
  ASSERT_EQ(blocks.size(), 5);
  EXPECT_EQ(blocks[0].type, kStatistics);
  EXPECT_EQ(blocks[0].at<std::uint64_t>(12 + 4 + 8 + 4), 7);
  EXPECT_EQ(blocks[1].at<std::uint64_t>(12 + 4 + 8 + 4), 0);
}

class TapTest : public testing::Test {
 protected:
  SteadyClock clock;
  fabric::Fabric fabric{clock, nullptr};
  fabric::Switch& fabric_switch = fabric.segment(transport::SegmentId{});
  fabric::Port port{"VM-01", {}, fabric_switch};
  std::unique_ptr<Tap> tap = std::make_unique<Tap>(port);

  std::shared_ptr<Capture> add(std::size_t ring_bytes = 1 << 16) {
    auto made = std::make_shared<Capture>(262144, ring_bytes);
    EXPECT_TRUE(tap->add(made));
    return made;
  }
  void say(std::uint32_t bytes) {
    const Record record = request(RequestOp::kWrite, bytes);
    auto payload = pattern(bytes);
    const auto spans = spans_of(payload);
    tap->on_request(verbs::Direction::kOutbound, record.request, &spans, abi::Mtu::k1024, Instant{});
  }
  static int taken(Capture& from) {
    Record record;
    std::vector<std::byte> payload;
    int count = 0;
    while (from.ring.take(record, payload)) ++count;
    return count;
  }
};

TEST_F(TapTest, ListensOnlyWhileThereIsACapture) {
  EXPECT_EQ(port.observer(), nullptr);
  const auto one = add();
  const auto two = add();
  EXPECT_EQ(port.observer(), tap.get());
  say(8);
  tap->remove(*one);
  say(8);
  EXPECT_EQ(taken(*one), 1);
  EXPECT_EQ(taken(*two), 2);
  tap->remove(*two);
  EXPECT_EQ(port.observer(), nullptr);
}

TEST_F(TapTest, CountsTheFramesThatFindNoRoomInOneCaptureAndFillsTheOther) {
  const auto narrow = add(4096);
  const auto wide = add(1 << 16);
  for (int i = 0; i < 4; ++i) say(2500);
  EXPECT_EQ(taken(*narrow), 1);
  EXPECT_EQ(narrow->lost_frames, 3 * 3);
  EXPECT_EQ(taken(*wide), 4);
  EXPECT_EQ(wide->lost_frames, 0);
}

TEST_F(TapTest, HasAFewCapturesAtMostAndForgetsThoseThatNobodyReads) {
  std::vector<std::shared_ptr<Capture>> all;
  for (std::size_t i = 0; i < kCapturesMax; ++i) all.push_back(add());
  const auto extra = std::make_shared<Capture>(262144, 1 << 16);
  EXPECT_FALSE(tap->add(extra));
  Capture& unread = *std::exchange(all[1], nullptr);
  say(8);
  EXPECT_EQ(taken(unread), 0);
  EXPECT_TRUE(tap->add(extra));
}

TEST_F(TapTest, TellsItsCapturesThatItsAdapterIsGone) {
  const auto capture = add();
  tap.reset();
  EXPECT_TRUE(capture->adapter_gone);
  EXPECT_EQ(port.observer(), nullptr);
}

TEST_F(TapTest, LeavesOutWhatIsLongerThanAnyPiece) {
  const auto capture = add();
  Record record = request(RequestOp::kWrite, 0xffff'ffff);
  tap->on_request(verbs::Direction::kInbound, record.request, nullptr, abi::Mtu::k1024, Instant{});
  EXPECT_EQ(taken(*capture), 0);
  EXPECT_EQ(capture->lost_frames, 0);
}

}  // namespace
}  // namespace pvrdma::capture
