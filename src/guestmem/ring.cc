#include "guestmem/ring.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "guestmem/copy.h"
#include "guestmem/read_hook.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::uint32_t kMaxElements = 1u << 30;  // so that 2n - 1 fits the index
constexpr std::uint8_t kProdTail = 0;             // within a pair of indices
constexpr std::uint8_t kConsHead = 4;

bool is_possible(const RingShape& shape, std::uint32_t page_count) {
  return std::has_single_bit(shape.element_count) && shape.element_count <= kMaxElements &&
         std::has_single_bit(shape.stride_bytes) && shape.stride_bytes >= 4 &&
         shape.stride_bytes <= kPageBytes && shape.first_page >= 1 && shape.first_page <= page_count &&
         shape.data_pages() <= page_count - shape.first_page;
}

}  // namespace

GuestRing::GuestRing(const AddressSpace& memory, const RingShape& shape)
    : memory_(&memory),
      mask_(2 * shape.element_count - 1),
      stride_bytes_(shape.stride_bytes),
      role_(shape.role),
      own_offset_(static_cast<std::uint8_t>(static_cast<std::uint8_t>(shape.words) +
                                            (shape.role == RingRole::kConsumer ? kConsHead : kProdTail))),
      peer_offset_(static_cast<std::uint8_t>(static_cast<std::uint8_t>(shape.words) +
                                             (shape.role == RingRole::kConsumer ? kProdTail : kConsHead))) {}

std::optional<GuestRing> GuestRing::create(const AddressSpace& memory, const PageList& pages,
                                           const RingShape& shape) {
  if (!is_possible(shape, pages.size())) return std::nullopt;
  GuestRing ring(memory, shape);
  const auto data_pages = static_cast<std::uint32_t>(shape.data_pages());
  ring.pages_.reserve(data_pages + 1);
  ring.pages_.push_back(Page{pages.at(0), nullptr});
  for (std::uint32_t i = 0; i < data_pages; ++i)
    ring.pages_.push_back(Page{pages.at(shape.first_page + i), nullptr});
  return ring;
}

SavedRing GuestRing::save() const {
  const auto& [memory, generation, pages, mask, stride, own_index, known, role, own_offset, peer_offset] =
      *this;
  SavedRing saved{.pages = {}, .own_index = known ? own_index : 0, .own_index_known = known};
  saved.pages.reserve(pages.size());
  for (const Page& page : pages) saved.pages.push_back(page.gpa.value);
  return saved;
}

std::optional<GuestRing> GuestRing::restore(const AddressSpace& memory, const SavedRing& saved,
                                            const RingShape& shape) {
  PageList pages;
  for (const std::uint64_t page : saved.pages) {
    if (page % kPageBytes != 0) return std::nullopt;
    pages.append(GuestPhys(page));
  }
  std::optional<GuestRing> ring = create(memory, pages, shape);
  if (!ring || ring->page_count() != saved.pages.size() || !ring->is_valid(saved.own_index))
    return std::nullopt;
  ring->own_index_ = saved.own_index;
  ring->own_index_known_ = saved.own_index_known;
  return ring;
}

void GuestRing::forget_addresses() {
  for (Page& page : pages_) page.host = nullptr;
  generation_ = memory_->generation();
}

inline std::byte* GuestRing::element_at(std::uint32_t index) {
  const std::uint64_t offset = std::uint64_t{index & (mask_ >> 1)} * stride_bytes_;
  Page& page = pages_[1 + static_cast<std::size_t>(offset / kPageBytes)];
  std::byte* host = host_of(page, role_ == RingRole::kConsumer ? Access::kRead : Access::kWrite);
  return host == nullptr ? nullptr : host + offset % kPageBytes;
}

GuestRing::Used GuestRing::used() {
  Used out{RingStatus::kUnmapped, 0, 0};
  if (std::byte* state = state_page()) out.status = load_indices(state, out.count);
  if (out.status != RingStatus::kOk) return out;
  out.peer_index = (role_ == RingRole::kConsumer ? own_index_ + out.count : own_index_ - out.count) & mask_;
  return out;
}

RingStatus GuestRing::pop(std::span<std::byte> out) {
  PVRDMA_CHECK(role_ == RingRole::kConsumer, "only a consumer's ring is read");
  PVRDMA_CHECK(out.size() <= stride_bytes_, "an element has no more bytes than the stride");
  std::byte* state = state_page();
  if (state == nullptr) return RingStatus::kUnmapped;
  std::uint32_t count = 0;
  if (const RingStatus status = load_indices(state, count); status != RingStatus::kOk) return status;
  if (count == 0) return RingStatus::kEmpty;
  const std::byte* element = element_at(own_index_);
  if (element == nullptr) return RingStatus::kUnmapped;
  before_read(*memory_, element, out.size());
  std::memcpy(out.data(), element, out.size());
  own_index_ = (own_index_ + 1) & mask_;
  store_release_u32(state + own_offset_, own_index_);
  return RingStatus::kOk;
}

RingStatus GuestRing::push(std::span<const std::byte> element) {
  PVRDMA_CHECK(role_ == RingRole::kProducer, "only a producer's ring is written");
  PVRDMA_CHECK(element.size() <= stride_bytes_, "an element has no more bytes than the stride");
  std::byte* state = state_page();
  if (state == nullptr) return RingStatus::kUnmapped;
  std::uint32_t count = 0;
  if (const RingStatus status = load_indices(state, count); status != RingStatus::kOk) return status;
  if (count == element_count()) return RingStatus::kFull;
  std::byte* slot = element_at(own_index_);
  if (slot == nullptr) return RingStatus::kUnmapped;
  std::memcpy(slot, element.data(), element.size());
  own_index_ = (own_index_ + 1) & mask_;
  store_release_u32(state + own_offset_, own_index_);
  return RingStatus::kOk;
}

RingStatus GuestRing::load_indices(std::byte* state, std::uint32_t& used_count) {
  if (!own_index_known_) {
    before_read(*memory_, state + own_offset_, sizeof(std::uint32_t));
    const std::uint32_t index = load_relaxed_u32(state + own_offset_);
    if (!is_valid(index)) return RingStatus::kInvalidIndex;
    own_index_ = index;
    own_index_known_ = true;
  }
  before_read(*memory_, state + peer_offset_, sizeof(std::uint32_t));
  const std::uint32_t peer = load_acquire_u32(state + peer_offset_);
  if (!is_valid(peer)) return RingStatus::kInvalidIndex;
  const std::uint32_t count = (role_ == RingRole::kConsumer ? peer - own_index_ : own_index_ - peer) & mask_;
  if (count > element_count()) return RingStatus::kInvalidIndex;
  used_count = count;
  return RingStatus::kOk;
}

}  // namespace pvrdma::guestmem
