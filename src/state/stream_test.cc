// Streams of saved state: a reader gets back what was written, and notices every change of the bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>

#include "state/crc32c.h"
#include "state/printer.h"
#include "state/reader.h"
#include "state/writer.h"

namespace pvrdma::state {
namespace {

using testing::HasSubstr;

enum class Colour : std::uint8_t { kRed = 1, kGreen = 2 };

struct Thing {
  std::uint64_t number = 0;
  std::uint8_t small = 0;
  bool flag = false;
  Colour colour = Colour::kRed;
  std::array<std::uint8_t, 4> bytes{};
  std::vector<std::uint32_t> list;
  std::vector<std::uint64_t> pages;
  std::string text;
  friend bool operator==(const Thing&, const Thing&) = default;
};

template <typename Archive>
void describe(Archive& archive, Thing& thing) {
  auto& [number, small, flag, colour, bytes, list, pages, text] = thing;
  archive.number("number", number);
  archive.number("small", small, std::uint8_t{9});
  archive.flag("flag", flag);
  archive.choice("colour", colour, Colour::kRed, Colour::kGreen);
  archive.bytes("bytes", bytes);
  archive.list("list", list, 5, 4, [&](std::uint32_t& one) { archive.number("one", one); });
  archive.pages("pages", pages, 8);
  archive.text("text", text, 6);
}

constexpr RecordKind kThing{7, 1};

Thing some_thing() {
  return {.number = 0x0123'4567'89ab'cdef,
          .small = 9,
          .flag = true,
          .colour = Colour::kGreen,
          .bytes = {1, 2, 3, 255},
          .list = {10, 20, 30},
          .pages = {0x1000, 0x2000, 0x9000, 0x3000, 0x4000},
          .text = "a \"b\""};
}

std::vector<std::byte> saved(Thing thing, RecordKind kind = kThing) {
  Writer writer;
  writer.begin(kind);
  describe(writer, thing);
  writer.end();
  return writer.finish();
}

// The thing that a stream held. If the stream was refused: the error's sentence.
struct Loaded {
  Thing thing;
  std::string fault;
};
Loaded load(std::span<const std::byte> stream) {
  Reader reader(stream);
  Loaded out;
  while (const auto record = reader.next()) {
    if (record->kind == kThing) {
      describe(reader, out.thing);
    } else {
      reader.skip(*record);
    }
  }
  if (const auto result = reader.result(); !result) out.fault = result.error().message;
  return out;
}

TEST(Crc32c, IsTheStandardOne) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xe306'9283u);
  const std::vector<std::byte> zeros(32);
  EXPECT_EQ(crc32c(zeros), 0x8a91'36aau);
  std::vector<std::byte> counting(32);
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(counting), 0x46dd'794eu);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Stream, SaysWhoSavedIt) {
  const Head head{.product_version = "1.2.3", .id = {1, 2, 3}};
  const auto bytes = Writer(head).finish();
  EXPECT_EQ(Reader(bytes).head(), head);
  EXPECT_THAT(Printer(bytes).text(), HasSubstr("product_version \"1.2.3\"\n  id 010203000"));
}

TEST(Stream, ReadsWhatWasWritten) {
  const Loaded loaded = load(saved(some_thing()));
  EXPECT_EQ(loaded.fault, "");
  EXPECT_EQ(loaded.thing, some_thing());
}

TEST(Stream, SavesTheSameBytesOfWhatItLoaded) {
  const auto bytes = saved(some_thing());
  EXPECT_EQ(saved(load(bytes).thing), bytes);
}

TEST(Stream, NeighbouringPagesTakeARun) {
  Thing one;
  one.pages = {0x1000};
  Thing eight;
  for (std::uint64_t page = 1; page <= 8; ++page) eight.pages.push_back(page * 0x1000);
  EXPECT_EQ(saved(one).size(), saved(eight).size());
  EXPECT_EQ(load(saved(eight)).thing.pages, eight.pages);
}

TEST(Stream, CutOffAnywhereIsRefused) {
  const auto bytes = saved(some_thing());
  for (std::size_t kept = 0; kept < bytes.size(); ++kept)
    EXPECT_NE(load(std::span(bytes).first(kept)).fault, "") << kept;
}

TEST(Stream, AnyBitFlippedIsRefused) {
  auto bytes = saved(some_thing());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto mask = static_cast<std::byte>(1 << (bit % 8));
    bytes[bit / 8] ^= mask;
    EXPECT_NE(load(bytes).fault, "") << bit;
    bytes[bit / 8] ^= mask;
  }
}

TEST(Stream, BytesBehindItsEndAreRefused) {
  auto bytes = saved(some_thing());
  bytes.push_back(std::byte{0});
  EXPECT_THAT(load(bytes).fault, HasSubstr("too many"));
}

TEST(Stream, ValuesBeyondTheirBoundsAreRefusedByName) {
  const auto fault_of = [](auto change) {
    Thing thing = some_thing();
    change(thing);
    return load(saved(thing)).fault;
  };
  EXPECT_THAT(fault_of([](Thing& t) { t.small = 10; }), HasSubstr("small is 10, not 0 to 9"));
  EXPECT_THAT(fault_of([](Thing& t) { t.colour = static_cast<Colour>(0); }),
              HasSubstr("colour is 0, not 1 to 2"));
  EXPECT_THAT(fault_of([](Thing& t) { t.colour = static_cast<Colour>(3); }), HasSubstr("colour is 3"));
  EXPECT_THAT(fault_of([](Thing& t) { t.list.resize(6); }), HasSubstr("list is 6, not 0 to 5"));
  EXPECT_THAT(fault_of([](Thing& t) { t.text = "a\nb"; }), HasSubstr("text is 10, not 32 to 126"));
  EXPECT_THAT(fault_of([](Thing& t) { t.pages.assign(9, 0x1000); }), HasSubstr("pages is 9, not 0 to 8"));
  EXPECT_THAT(fault_of([](Thing& t) { t.pages = {0x1001}; }), HasSubstr("not aligned"));
  EXPECT_THAT(fault_of([](Thing& t) { t.pages = {0xffff'ffff'ffff'f000}; }), HasSubstr("beyond the last"));
  EXPECT_THAT(fault_of([](Thing& t) {
                for (std::uint64_t page = 1; page <= 9; ++page) t.pages.push_back(page * 0x1000);
              }),
              HasSubstr("pages is"));
}

TEST(Stream, ListsLongerThanTheRecordAreNotMade) {
  Writer writer;
  writer.begin(kThing);
  std::uint32_t count = 1'000'000;
  writer.number("count", count);
  writer.end();
  const auto bytes = writer.finish();
  Reader reader(bytes);
  ASSERT_TRUE(reader.next());
  std::vector<std::uint64_t> list;
  reader.list("list", list, 2'000'000, 8, [&](std::uint64_t& one) { reader.number("one", one); });
  EXPECT_TRUE(reader.failed());
  EXPECT_EQ(list.capacity(), 0u);
}

TEST(Stream, RecordsThatSayMoreThanIsKnownAreRefused) {
  Writer writer;
  writer.begin(kThing);
  Thing thing = some_thing();
  describe(writer, thing);
  writer.flag("news", true);
  writer.end();
  EXPECT_THAT(load(writer.finish()).fault, HasSubstr("more fields"));
}

TEST(Stream, OtherKindsAndVersionsAreRefused) {
  EXPECT_THAT(load(saved(some_thing(), {8, 1})).fault, HasSubstr("record kind 8 version 1 is not known"));
  EXPECT_THAT(load(saved(some_thing(), {7, 2})).fault, HasSubstr("record kind 7 version 2 is not known"));
}

TEST(Stream, MayComeByteByByte) {
  const std::vector<std::byte> stream = saved(some_thing());
  std::vector<std::byte> unread;
  std::optional<Reader> reader;
  Thing thing;
  for (const std::byte byte : stream) {
    unread.push_back(byte);
    if (!Reader::holds_record(unread)) continue;
    if (!reader) {
      reader.emplace(unread);
    } else {
      reader->go_on(unread);
      if (reader->next()) describe(*reader, thing);
    }
    ASSERT_TRUE(reader->unread().empty());
    unread.clear();
  }
  ASSERT_TRUE(reader);
  EXPECT_FALSE(reader->next()) << "it has ended";
  EXPECT_TRUE(reader->result());
  EXPECT_EQ(thing, some_thing());
}

TEST(Stream, ARecordOfAnInvalidLengthIsNotWaitedFor) {
  std::vector<std::byte> head(kRecordHeadBytes, std::byte{0xff});
  EXPECT_TRUE(Reader::holds_record(head));
  EXPECT_FALSE(Reader(head).result());
  head.pop_back();
  EXPECT_FALSE(Reader::holds_record(head));
}

TEST(Printer, NamesEachField) {
  const auto bytes = saved(some_thing());
  Printer printer(bytes);
  Thing thing;
  while (printer.next()) {
    printer.title("a thing");
    describe(printer, thing);
  }
  EXPECT_TRUE(printer.result());
  EXPECT_EQ(printer.text(),
            "format 1\n  product_version \"\"\n  id 00000000000000000000000000000000\n"
            "record 7 version 1: a thing\n  number 81985529216486895\n  small 9\n  flag yes\n  colour 2\n"
            "  bytes 010203ff\n  list 3\n  list[0]\n  one 10\n  list[1]\n  one 20\n  list[2]\n  one 30\n"
            "  pages 5 pages, the first at 4096\n  text \"a \"b\"\"\n");
}

}  // namespace
}  // namespace pvrdma::state
