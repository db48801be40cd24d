#include "verbs/memory_region.h"

#include <cstdlib>
#include <limits>
#include <new>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "abi/attributes.h"
#include "support/guest_memory.h"

namespace {
std::size_t allocations = 0;
}  // namespace

// Counts the program's allocations: some calls promise to allocate nothing. Not inlined: otherwise GCC looks
// into the pair and warns of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace pvrdma::verbs {
namespace {

using guestmem::GuestPhys;

constexpr std::uint64_t kPage = guestmem::kPageBytes;
constexpr PdHandle kPd{1};
constexpr PdHandle kOtherPd{2};
constexpr AccessNeed kLocalRead{};
constexpr AccessNeed kLocalWrite{.flag = abi::kAccessLocalWrite};
constexpr AccessNeed kRemoteRead{.flag = abi::kAccessRemoteRead, .remote = true};
constexpr AccessNeed kRemoteWrite{.flag = abi::kAccessRemoteWrite, .remote = true};
constexpr AccessNeed kRemoteAtomic{.flag = abi::kAccessRemoteAtomic, .remote = true};
constexpr std::uint32_t kAllAccess = 0xf;

class MemoryRegionTest : public testing::Test {
 protected:
  // Creates a user MR of [start, start + length) on fresh pages.
  CreateMr user_mr(std::uint64_t start, std::uint64_t length, std::uint32_t access = kAllAccess) {
    object = memory.object(static_cast<std::uint32_t>(guestmem::pages_spanned(start, length).value_or(1)));
    return {.kind = MrKind::kUser,
            .pd = kPd,
            .start = start,
            .length = length,
            .access_flags = access,
            .page_count = object.page_count(),
            .page_directory = object.directory};
  }
  std::uint32_t make_user(std::uint64_t start, std::uint64_t length, std::uint32_t access = kAllAccess) {
    return table.create(user_mr(start, length, access)).value().key;
  }
  std::uint32_t make_fast(std::uint32_t page_count) {
    return table.create({.kind = MrKind::kFastRegister, .pd = kPd, .page_count = page_count}).value().key;
  }
  std::uint32_t make_dma() {
    return table.create({.kind = MrKind::kDma, .pd = kPd, .access_flags = abi::kAccessLocalWrite})
        .value()
        .key;
  }
  // A registration of `pages` fresh pages.
  MemoryRegionTable::FastRegister registration(std::uint32_t key, std::uint64_t iova, std::uint32_t length,
                                               std::uint32_t pages) {
    object = memory.object(pages);
    return {.key = key,
            .pd = kPd,
            .iova_start = iova,
            .page_directory = object.directory,
            .page_shift = 12,
            .page_count = pages,
            .length = length,
            .access_flags = kAllAccess};
  }
  KeyFault resolve(std::uint32_t key, std::uint64_t addr, std::uint64_t length, AccessNeed need = kLocalRead,
                   PdHandle pd = kPd) {
    spans.clear();
    const KeyFault fault = table.resolve(key, pd, addr, length, need, spans);
    const KeyFault checked = table.check(key, pd, addr, length, need);
    EXPECT_EQ(checked, fault == KeyFault::kNotMapped ? KeyFault::kNone : fault);
    EXPECT_EQ(spans.bytes(), fault == KeyFault::kNone ? length : 0);
    return fault;
  }
  std::byte* host(std::size_t page, std::uint64_t offset) {
    return memory.at(GuestPhys(object.pages.at(page).value + offset));
  }

  test::GuestMemory memory;
  test::GuestMemory::Object object;  // the memory of the last MR or registration
  Limits limits;
  Account account{Budgets::none()};
  MemoryRegionTable table{limits, memory.space(), account};
  guestmem::SpanList spans;
};

TEST_F(MemoryRegionTest, UserMrMapsItsBytesPageByPage) {
  const std::uint64_t start = 0x7f00'0000'0ff0;
  const std::uint32_t key = make_user(start, 2 * kPage);  // unaligned: three pages
  ASSERT_EQ(object.page_count(), 3u);

  ASSERT_EQ(resolve(key, start, 2 * kPage), KeyFault::kNone);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].data, host(0, 0xff0));
  EXPECT_EQ(spans[0].size, 0x10u);
  EXPECT_EQ(spans[1].data, host(1, 0));
  EXPECT_EQ(spans[1].size, kPage);
  EXPECT_EQ(spans[2].data, host(2, 0));
  EXPECT_EQ(spans[2].size, kPage - 0x10);

  ASSERT_EQ(resolve(key, start + 0x10, 1), KeyFault::kNone);  // first byte of the second page
  EXPECT_EQ(spans[0].data, host(1, 0));
  ASSERT_EQ(resolve(key, start + 2 * kPage - 1, 1), KeyFault::kNone);  // last byte
  EXPECT_EQ(spans[0].data, host(2, kPage - 0x11));
}

TEST_F(MemoryRegionTest, ResolveAppends) {
  const std::uint32_t key = make_user(0x5000, kPage);
  spans.clear();
  ASSERT_EQ(table.resolve(key, kPd, 0x5000, 4, kLocalRead, spans), KeyFault::kNone);
  ASSERT_EQ(table.resolve(key, kPd, 0x5100, 4, kLocalRead, spans), KeyFault::kNone);
  EXPECT_EQ(table.resolve(key, kPd, 0x5100, kPage, kLocalRead, spans), KeyFault::kOutOfBounds);
  EXPECT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans.bytes(), 8u);
}

TEST_F(MemoryRegionTest, BoundsAreExact) {
  const std::uint64_t start = 0x10'0800;
  const std::uint32_t key = make_user(start, kPage);
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  struct Case {
    std::uint64_t addr, length;
    KeyFault fault;
  };
  for (const Case& c :
       {Case{start, kPage, KeyFault::kNone}, Case{start, 1, KeyFault::kNone},
        Case{start + kPage - 1, 1, KeyFault::kNone}, Case{start - 1, 1, KeyFault::kOutOfBounds},
        Case{start - 1, kPage, KeyFault::kOutOfBounds}, Case{start, kPage + 1, KeyFault::kOutOfBounds},
        Case{start + kPage, 1, KeyFault::kOutOfBounds}, Case{start + 1, kPage, KeyFault::kOutOfBounds},
        Case{start + 8, kMax, KeyFault::kOutOfBounds}, Case{start + 8, kMax - 7, KeyFault::kOutOfBounds},
        Case{kMax, 1, KeyFault::kOutOfBounds}, Case{kMax, kMax, KeyFault::kOutOfBounds},
        Case{0, start + kPage, KeyFault::kOutOfBounds}, Case{start, kMax, KeyFault::kOutOfBounds}}) {
    EXPECT_EQ(resolve(key, c.addr, c.length), c.fault) << c.addr << " " << c.length;
  }
}

TEST_F(MemoryRegionTest, AnMrMayEndAtTheTopOfTheAddressSpace) {
  const std::uint64_t start = 0 - 2 * kPage;
  const std::uint32_t key = make_user(start, 2 * kPage);
  EXPECT_EQ(resolve(key, start, 2 * kPage), KeyFault::kNone);
  EXPECT_EQ(resolve(key, std::numeric_limits<std::uint64_t>::max(), 1), KeyFault::kNone);
  EXPECT_EQ(resolve(key, std::numeric_limits<std::uint64_t>::max(), 2), KeyFault::kOutOfBounds);
  EXPECT_EQ(resolve(key, start, 2 * kPage + 1), KeyFault::kOutOfBounds);
}

TEST_F(MemoryRegionTest, ZeroLengthIsLegalWithAnyKey) {
  EXPECT_EQ(resolve(0, 0, 0), KeyFault::kNone);
  EXPECT_EQ(resolve(0xdead'beef, ~0ull, 0, kRemoteWrite), KeyFault::kNone);
}

TEST_F(MemoryRegionTest, KeysMatchExactly) {
  const std::uint32_t key = make_user(0x1000, 16);
  EXPECT_NE(key, 0u);
  EXPECT_EQ(key & 0xff, 0u);
  for (std::uint32_t bit = 0; bit < 32; ++bit)
    EXPECT_EQ(resolve(key ^ 1u << bit, 0x1000, 16), KeyFault::kBadKey) << bit;
  EXPECT_EQ(resolve(0, 0x1000, 16), KeyFault::kBadKey);
  EXPECT_EQ(resolve(key, 0x1000, 16, kLocalRead, kOtherPd), KeyFault::kWrongPd);
}

TEST_F(MemoryRegionTest, ChecksGoKeyPdBoundsPermission) {
  const std::uint32_t key = make_user(0x1000, 16, 0);
  EXPECT_EQ(resolve(key ^ 0x100, 0x9000, 16, kRemoteWrite, kOtherPd), KeyFault::kBadKey);
  EXPECT_EQ(resolve(key, 0x9000, 16, kRemoteWrite, kOtherPd), KeyFault::kWrongPd);
  EXPECT_EQ(resolve(key, 0x9000, 16, kRemoteWrite), KeyFault::kOutOfBounds);
  EXPECT_EQ(resolve(key, 0x1000, 16, kRemoteWrite), KeyFault::kNoPermission);
}

TEST_F(MemoryRegionTest, EachAccessNeedsItsBit) {
  for (std::uint32_t access = 0; access <= kAllAccess; ++access) {
    const std::uint32_t key = make_user(
        0x1000, 16,
        access | 0x10'0000);  // bits above the defined ones, such as "relaxed ordering", are ignored
    const auto expect = [&](AccessNeed need, std::uint32_t bit) {
      const KeyFault fault = bit == 0 || (access & bit) != 0 ? KeyFault::kNone : KeyFault::kNoPermission;
      EXPECT_EQ(resolve(key, 0x1000, 16, need), fault) << access << " " << need.flag;
    };
    expect(kLocalRead, 0);
    expect(kLocalWrite, 1);
    expect(kRemoteWrite, 2);
    expect(kRemoteRead, 4);
    expect(kRemoteAtomic, 8);
    EXPECT_EQ(resolve(key, 0x1000, 16, AccessNeed{.flag = 0, .remote = true}), KeyFault::kNoPermission);
  }
}

TEST_F(MemoryRegionTest, UserMrIsRefused) {
  struct Case {
    const char* what;
    void (*spoil)(CreateMr&);
    CommandError error;
  };
  limits.max_mr_bytes = 4 * kPage;
  const Case cases[] = {
      {"no bytes", [](CreateMr& r) { r.length = 0; }, CommandError::kInvalid},
      {"no bytes, no pages", [](CreateMr& r) { r.length = r.page_count = 0; }, CommandError::kInvalid},
      {"too long", [](CreateMr& r) { r.length = 4 * kPage + 1, r.page_count = 5; }, CommandError::kInvalid},
      {"absurdly long", [](CreateMr& r) { r.length = ~0ull; }, CommandError::kInvalid},
      {"wraps", [](CreateMr& r) { r.start = ~0ull - 100; }, CommandError::kInvalid},
      {"a page too few", [](CreateMr& r) { r.page_count = 1; }, CommandError::kInvalid},
      {"a page too many", [](CreateMr& r) { r.page_count = 3; }, CommandError::kInvalid},
      {"offset needs one page more", [](CreateMr& r) { r.start += 1; }, CommandError::kInvalid},
      {"directory nowhere", [](CreateMr& r) { r.page_directory = 0x1000; }, CommandError::kBadAddress},
      {"directory unaligned", [](CreateMr& r) { r.page_directory += 8; }, CommandError::kBadAddress},
  };
  for (const Case& c : cases) {
    CreateMr request = user_mr(0x4000, 2 * kPage);
    c.spoil(request);
    const auto made = table.create(request);
    ASSERT_FALSE(made) << c.what;
    EXPECT_EQ(made.error(), c.error) << c.what;
  }
  CreateMr hole = user_mr(0x4000, 2 * kPage);
  hole.page_directory = memory.directory(std::vector<GuestPhys>{object.pages[0], GuestPhys(0x1000)});
  EXPECT_EQ(table.create(hole).error(), CommandError::kBadAddress);
  EXPECT_EQ(table.count(), 0u);
  EXPECT_TRUE(table.create(user_mr(0x4000, 4 * kPage)));
}

TEST_F(MemoryRegionTest, LargerThanADirectoryCanNameIsRefused) {
  limits.max_mr_bytes = 1ull << 40;
  CreateMr request = user_mr(0, kPage);
  request.length = (guestmem::kMaxDirectoryPages + 1ull) * kPage;
  request.page_count = guestmem::kMaxDirectoryPages + 1;
  EXPECT_EQ(table.create(request).error(), CommandError::kInvalid);
}

TEST_F(MemoryRegionTest, OnlyUserMrsAreMadeForRemoteAccess) {
  for (const MrKind kind : {MrKind::kDma, MrKind::kFastRegister}) {
    for (const std::uint32_t access : {2u, 4u, 8u, 0xfu})
      EXPECT_EQ(table.create({.kind = kind, .pd = kPd, .access_flags = access, .page_count = 1}).error(),
                CommandError::kInvalid);
    EXPECT_TRUE(table.create({.kind = kind, .pd = kPd, .access_flags = 1, .page_count = 1}));
  }
}

TEST_F(MemoryRegionTest, DmaMrIsTheGuestsMemory) {
  const std::uint32_t key = make_dma();
  const GuestPhys page = memory.pages(1)[0];
  ASSERT_EQ(resolve(key, page.value + 5, 2 * kPage, kLocalWrite), KeyFault::kNone);
  EXPECT_EQ(spans[0].data, memory.at(GuestPhys(page.value + 5)));
  EXPECT_EQ(resolve(key, 0x1000, 1), KeyFault::kNotMapped);
  EXPECT_EQ(resolve(key, memory.end().value - 1, 2), KeyFault::kNotMapped);
  EXPECT_EQ(resolve(key, memory.end().value - 1, 1), KeyFault::kNone);
  EXPECT_EQ(resolve(key, ~0ull, 1), KeyFault::kNotMapped);  // the end does not wrap yet
  EXPECT_EQ(resolve(key, ~0ull, 2), KeyFault::kOutOfBounds);
  EXPECT_EQ(resolve(key, ~0ull, ~0ull), KeyFault::kOutOfBounds);
  EXPECT_EQ(resolve(key, page.value, 8, kLocalWrite, kOtherPd), KeyFault::kWrongPd);
}

TEST_F(MemoryRegionTest, DmaMrIsNeverARemoteKey) {
  const std::uint32_t key = make_dma();
  for (const AccessNeed need : {kRemoteRead, kRemoteWrite, kRemoteAtomic, AccessNeed{.remote = true}})
    EXPECT_EQ(resolve(key, test::GuestMemory::kBase, 8, need), KeyFault::kBadKey);
}

TEST_F(MemoryRegionTest, DestroyedKeysStayDead) {
  const MrKeys keys = table.create(user_mr(0x1000, 16)).value();
  EXPECT_EQ(table.count(), 1u);
  ASSERT_TRUE(table.destroy(keys.handle));
  EXPECT_EQ(table.count(), 0u);
  EXPECT_EQ(resolve(keys.key, 0x1000, 16), KeyFault::kBadKey);
  EXPECT_EQ(table.destroy(keys.handle).error(), CommandError::kNoSuchObject);
  const MrKeys others = table.create(user_mr(0x1000, 16)).value();
  EXPECT_NE(others.key, keys.key);
  EXPECT_EQ(resolve(keys.key, 0x1000, 16), KeyFault::kBadKey);
  EXPECT_EQ(table.destroy(keys.handle).error(), CommandError::kNoSuchObject);
  EXPECT_EQ(table.destroy(MrHandle(others.handle.value | 1u << 24)).error(), CommandError::kNoSuchObject);
  EXPECT_EQ(table.destroy(MrHandle(0)).error(), CommandError::kNoSuchObject);
  EXPECT_EQ(table.destroy(MrHandle(0xffff'ffff)).error(), CommandError::kNoSuchObject);
  EXPECT_EQ(table.count(), 1u);
}

TEST_F(MemoryRegionTest, AKeyComesBackOnlyAfterAllSlotsAndGenerations) {
  limits.max_mr = 3;
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 3 * 64; ++i) {
    const MrKeys keys = table.create({.kind = MrKind::kDma, .pd = kPd}).value();
    EXPECT_NE(keys.key, 0u);
    EXPECT_TRUE(seen.insert(keys.key).second) << i;
    ASSERT_TRUE(table.destroy(keys.handle));
  }
  EXPECT_TRUE(seen.contains(table.create({.kind = MrKind::kDma, .pd = kPd}).value().key));
}

TEST_F(MemoryRegionTest, SlotsGoRoundWhenTheTableIsFull) {
  limits.max_mr = 3;
  const CreateMr dma{.kind = MrKind::kDma, .pd = kPd};
  std::vector<MrKeys> held(3);
  for (MrKeys& keys : held) keys = table.create(dma).value();
  for (std::size_t i = 0; i < 12;
       ++i) {  // frees one slot at a time, so that the queue of free slots empties each time
    ASSERT_TRUE(table.destroy(held[i % 3].handle));
    held[i % 3] = table.create(dma).value();
    for (const MrKeys& keys : held)
      EXPECT_EQ(resolve(keys.key, test::GuestMemory::kBase, 8), KeyFault::kNone);
  }
  for (const MrKeys& keys : held) ASSERT_TRUE(table.destroy(keys.handle));
  for (MrKeys& keys : held) keys = table.create(dma).value();
  EXPECT_EQ(table.count(), 3u);
}

TEST_F(MemoryRegionTest, MrsAreLimited) {
  limits.max_mr = 2;
  const MrKeys first = table.create({.kind = MrKind::kDma, .pd = kPd}).value();
  ASSERT_TRUE(table.create({.kind = MrKind::kDma, .pd = kPd}));
  EXPECT_EQ(table.create({.kind = MrKind::kDma, .pd = kPd}).error(), CommandError::kNoMemory);
  ASSERT_TRUE(table.destroy(first.handle));
  EXPECT_TRUE(table.create({.kind = MrKind::kDma, .pd = kPd}));
}

TEST_F(MemoryRegionTest, RegisteredPagesAreLimitedAndGivenBack) {
  account.set_ram(kPage);  // with one page of RAM, the bound is four named pages
  const MrKeys three = table.create(user_mr(0, 3 * kPage)).value();
  EXPECT_EQ(table.create(user_mr(0, 2 * kPage)).error(), CommandError::kNoMemory);
  const CreateMr one_fast{.kind = MrKind::kFastRegister, .pd = kPd, .page_count = 1};
  EXPECT_EQ(table.create(one_fast).error(), CommandError::kNoMemory);  // a fast-register MR counts two lists
  ASSERT_TRUE(table.create(user_mr(0, kPage)));
  EXPECT_EQ(table.create(user_mr(0, 1)).error(), CommandError::kNoMemory);
  ASSERT_TRUE(table.destroy(three.handle));
  ASSERT_TRUE(table.create(one_fast));
  EXPECT_EQ(table.destroy_all_of({kPd}), 2u);
  std::uint32_t budget = 10;
  table.bury_dropped(budget);  // until then the dropped regions count against the budget
  EXPECT_TRUE(table.create(user_mr(0, 4 * kPage)));
}

TEST_F(MemoryRegionTest, DestroyAllOfAPd) {
  CreateMr foreign = user_mr(0x1000, 16);
  foreign.pd = kOtherPd;
  const std::uint32_t kept = table.create(foreign).value().key;
  const std::uint32_t gone = make_user(0x1000, 16);
  make_dma();
  make_fast(3);
  EXPECT_TRUE(table.any_of(kPd));
  EXPECT_EQ(table.destroy_all_of({kPd}), 3u);
  EXPECT_FALSE(table.any_of(kPd));
  EXPECT_TRUE(table.any_of(kOtherPd));
  EXPECT_EQ(table.destroy_all_of({kPd}), 0u);
  EXPECT_EQ(resolve(gone, 0x1000, 16), KeyFault::kBadKey);
  EXPECT_EQ(resolve(kept, 0x1000, 16, kLocalRead, kOtherPd), KeyFault::kNone);
}

TEST_F(MemoryRegionTest, UnmappedMemoryFailsAtUse) {
  const std::uint32_t key = make_user(0x1000, 2 * kPage);
  const std::uint32_t dma = make_dma();
  memory.space().unmap_all();
  EXPECT_EQ(resolve(key, 0x1000, 16), KeyFault::kNotMapped);
  EXPECT_EQ(resolve(dma, test::GuestMemory::kBase, 16), KeyFault::kNotMapped);
  EXPECT_EQ(table.check(key, kPd, 0x1000, 16, kLocalRead), KeyFault::kNone);
}

TEST_F(MemoryRegionTest, MorePiecesThanTheListHoldsFailWhole) {
  const std::uint64_t capacity = guestmem::SpanList::kCapacity;
  const std::uint32_t key = make_user(0, (capacity + 1) * kPage);
  EXPECT_EQ(resolve(key, 0, capacity * kPage), KeyFault::kNone);
  EXPECT_EQ(resolve(key, 0, capacity * kPage + 1), KeyFault::kNotMapped);
}

TEST_F(MemoryRegionTest, ResolvingAllocatesNothing) {
  const std::uint32_t key = make_user(0x800, 20 * kPage);
  const std::uint32_t dma = make_dma();
  const std::size_t before = allocations;
  for (std::uint64_t i = 0; i < 100; ++i) {
    spans.clear();
    static_cast<void>(table.resolve(key, kPd, 0x800 + i, 10 * kPage, kLocalWrite, spans));
    static_cast<void>(table.resolve(dma, kPd, test::GuestMemory::kBase, 10 * kPage, kLocalWrite, spans));
  }
  EXPECT_EQ(allocations, before);
}

TEST_F(MemoryRegionTest, FastRegisterMrIsInvalidUntilRegistered) {
  const std::uint32_t key = make_fast(4);
  EXPECT_EQ(resolve(key, 0, 1), KeyFault::kBadKey);
  EXPECT_FALSE(table.invalidate(key, kPd));
}

TEST_F(MemoryRegionTest, FastRegisterKeyVariants) {
  make_fast(1), make_fast(1);
  const std::uint32_t base = make_fast(4);
  ASSERT_EQ(base, 0x300u);                 // the third MR of a new table
  const std::uint64_t iova = 0x1f9b'2c00;  // kernel clients use the DMA address with its offset
  ASSERT_TRUE(table.fast_register(registration(0x301, iova, 2 * kPage, 3)));
  ASSERT_EQ(resolve(0x301, iova, 2 * kPage, kRemoteWrite), KeyFault::kNone);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].data, host(0, 0xc00));
  EXPECT_EQ(spans[1].data, host(1, 0));
  EXPECT_EQ(resolve(0x301, iova + 2 * kPage, 1), KeyFault::kOutOfBounds);
  EXPECT_EQ(resolve(0x301, iova - 1, 1), KeyFault::kOutOfBounds);
  EXPECT_EQ(resolve(0x300, iova, 1), KeyFault::kBadKey);
  EXPECT_EQ(resolve(0x302, iova, 1), KeyFault::kBadKey);

  EXPECT_FALSE(
      table.fast_register(registration(0x302, iova, kPage, 2)));  // the previous registration is still valid
  EXPECT_EQ(resolve(0x301, iova, 1), KeyFault::kNone);
  EXPECT_FALSE(table.invalidate(0x302, kPd));
  EXPECT_FALSE(table.invalidate(0x301, kOtherPd));
  ASSERT_TRUE(table.invalidate(0x301, kPd));
  EXPECT_EQ(resolve(0x301, iova, 1), KeyFault::kBadKey);
  EXPECT_FALSE(table.invalidate(0x301, kPd));

  ASSERT_TRUE(table.fast_register(registration(0x302, 0x8000, kPage, 1)));
  ASSERT_EQ(resolve(0x302, 0x8000, kPage), KeyFault::kNone);
  EXPECT_EQ(spans[0].data, host(0, 0));
  EXPECT_EQ(resolve(0x301, 0x8000, 1), KeyFault::kBadKey);
  EXPECT_EQ(resolve(0x302, iova, 1), KeyFault::kOutOfBounds);
}

TEST_F(MemoryRegionTest, FastRegisterTakesTheRightsOfTheRequest) {
  const std::uint32_t key = make_fast(1);
  MemoryRegionTable::FastRegister request = registration(key, 0, kPage, 1);
  request.access_flags = abi::kAccessRemoteRead;
  ASSERT_TRUE(table.fast_register(request));
  EXPECT_EQ(resolve(key, 0, 8, kRemoteRead), KeyFault::kNone);
  EXPECT_EQ(resolve(key, 0, 8, kRemoteWrite), KeyFault::kNoPermission);
  EXPECT_EQ(resolve(key, 0, 8, kLocalWrite), KeyFault::kNoPermission);
}

TEST_F(MemoryRegionTest, FastRegisterIsRefused) {
  struct Case {
    const char* what;
    void (*spoil)(MemoryRegionTable::FastRegister&);
  };
  const std::uint32_t key = make_fast(4);
  const Case cases[] = {
      {"foreign PD", [](auto& r) { r.pd = kOtherPd; }},
      {"no such MR", [](auto& r) { r.key += 0x100; }},
      {"other generation", [](auto& r) { r.key += 1u << 26; }},
      {"key 0", [](auto& r) { r.key = 0; }},
      {"2 MiB pages", [](auto& r) { r.page_shift = 21; }},
      {"page shift 0", [](auto& r) { r.page_shift = 0; }},
      {"no pages", [](auto& r) { r.page_count = 0; }},
      {"more pages than allocated", [](auto& r) { r.page_count = 5; }},
      {"absurdly many pages", [](auto& r) { r.page_count = 0xffff'ffff; }},
      {"no bytes", [](auto& r) { r.length = 0; }},
      {"more bytes than pages", [](auto& r) { r.length += 1; }},
      {"offset needs a page more", [](auto& r) { r.iova_start += 1; }},
      {"wraps", [](auto& r) { r.iova_start = ~0ull - 4095; }},
      {"list nowhere", [](auto& r) { r.page_directory = 0x1000; }},
      {"page nowhere", [](auto& r) { r.page_directory = r.page_directory + kPage; }},
  };
  for (const Case& c : cases) {
    MemoryRegionTable::FastRegister request = registration(key, 0x4000, 4 * kPage, 4);
    c.spoil(request);
    EXPECT_FALSE(table.fast_register(request)) << c.what;
    EXPECT_EQ(resolve(key, 0x4000, 1), KeyFault::kBadKey) << c.what;
  }
  EXPECT_TRUE(table.fast_register(registration(key, 0x4000, 4 * kPage, 4)));
}

TEST_F(MemoryRegionTest, FastRegisterIsForItsOwnKind) {
  const std::uint32_t user = make_user(0x1000, kPage);
  const std::uint32_t dma = make_dma();
  for (const std::uint32_t key : {user, dma}) {
    EXPECT_FALSE(table.fast_register(registration(key, 0, kPage, 1)));
    EXPECT_FALSE(table.fast_register(registration(key + 1, 0, kPage, 1)));
    EXPECT_FALSE(table.invalidate(key, kPd));
  }
  EXPECT_EQ(resolve(user, 0x1000, kPage), KeyFault::kNone);
}

TEST_F(MemoryRegionTest, FastRegisterCapacityIsBounded) {
  for (const std::uint32_t pages : {0u, kFastRegisterPagesMax + 1, 0xffff'ffffu, 0x8000'0001u})
    EXPECT_EQ(table.create({.kind = MrKind::kFastRegister, .pd = kPd, .page_count = pages}).error(),
              CommandError::kInvalid);
}

TEST_F(MemoryRegionTest, FastRegisterCopiesTheList) {
  const std::uint32_t key = make_fast(2);
  ASSERT_TRUE(table.fast_register(registration(key, 0, 2 * kPage, 2)));
  const GuestPhys entry(memory.load<std::uint64_t>(GuestPhys(object.directory)));
  memory.store(entry, std::uint64_t{0x1000});  // the guest prepares its next registration
  ASSERT_EQ(resolve(key, 0, 1), KeyFault::kNone);
  EXPECT_EQ(spans[0].data, host(0, 0));
}

TEST_F(MemoryRegionTest, FastRegisterAllocatesNothing) {
  const std::uint32_t key = make_fast(kFastRegisterPagesMax);
  const MemoryRegionTable::FastRegister small = registration(key, 0, kPage, 1);
  const MemoryRegionTable::FastRegister large =
      registration(key, 0, kFastRegisterPagesMax * kPage, kFastRegisterPagesMax);
  const std::size_t before = allocations;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(table.fast_register(i % 2 == 0 ? small : large));
    ASSERT_TRUE(table.invalidate(key, kPd));
    ASSERT_TRUE(table.fast_register(large));
    ASSERT_TRUE(table.invalidate(key, kPd));
  }
  EXPECT_EQ(allocations, before);
}

TEST_F(MemoryRegionTest, AFailedRegistrationLeavesTheListsTheirRoom) {
  const std::uint32_t key = make_fast(8);
  MemoryRegionTable::FastRegister bad = registration(key, 0, 8 * kPage, 8);
  bad.page_directory = 0x1000;
  const MemoryRegionTable::FastRegister good = registration(key, 0, 8 * kPage, 8);
  const std::size_t before = allocations;
  EXPECT_FALSE(table.fast_register(bad));
  EXPECT_TRUE(table.fast_register(good));
  EXPECT_EQ(allocations, before);
}

TEST_F(MemoryRegionTest, ADestroyedFastRegisterMrTakesItsVariantsAlong) {
  const MrKeys keys = table.create({.kind = MrKind::kFastRegister, .pd = kPd, .page_count = 2}).value();
  ASSERT_TRUE(table.fast_register(registration(keys.key + 5, 0, kPage, 1)));
  ASSERT_TRUE(table.destroy(keys.handle));
  EXPECT_EQ(resolve(keys.key + 5, 0, 1), KeyFault::kBadKey);
  EXPECT_FALSE(table.fast_register(registration(keys.key + 6, 0, kPage, 1)));
}

}  // namespace
}  // namespace pvrdma::verbs
