#include "device/doorbell_poller.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "abi/registers.h"
#include "base/check.h"

namespace pvrdma::device {
namespace {

static_assert(static_cast<std::uint32_t>(abi::UarWord::kQp) == 0 &&
                  static_cast<std::uint32_t>(abi::UarWord::kCq) == 4,
              "the unit that is exchanged, little-endian");
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

// A receive's doorbell may have replaced a send's. (A send's doorbell that replaced a receive's covers both:
// it also runs a QP that flushes, and no other QP has to look for receives.)
constexpr std::uint32_t kMaybeSend = abi::kQpDoorbellSend;

// Does not keep the order.
template <typename Pages>
void remove_at(Pages& pages, std::size_t place) {
  pages[place] = pages.back();
  pages.pop_back();
}

}  // namespace

DoorbellPoller::DoorbellPoller(std::uint32_t uar_pages, const DoorbellMemory& memory, Doorbells& doorbells,
                               verbs::Engine& engine)
    : memory_(memory), doorbells_(doorbells), engine_(engine) {
  hot_.reserve(uar_pages);
  cold_.reserve(uar_pages);
}

void DoorbellPoller::open(verbs::UarIndex uar) {
  std::memset(memory_.page(uar), 0, abi::kUarPageBytes);
  look_after(uar);
}

void DoorbellPoller::look_after(verbs::UarIndex uar) {
  PVRDMA_CHECK(hot_.size() + cold_.size() < hot_.capacity(), "more contexts than doorbell pages");
  cold_.push_back({uar, Instant{}});
}

void DoorbellPoller::close(verbs::UarIndex uar) {
  for (std::vector<Page>* pages : {&hot_, &cold_}) {
    const auto found = std::ranges::find(*pages, uar, &Page::uar);
    if (found != pages->end()) remove_at(*pages, static_cast<std::size_t>(found - pages->begin()));
  }
}

void DoorbellPoller::close_all() {
  hot_.clear();
  cold_.clear();
}

DoorbellPoller::Looked DoorbellPoller::look(Instant now) {
  Looked looked;
  if (now - last_look_ >= kSlept) cold_due_ = cold_.size();
  last_look_ = now;
  look_ = engine_.begin_look();
  const std::size_t hot = look_at_hot(kHotLooksPerTurn, looked, now);
  look_at_cold(kLooksPerTurn - hot, looked, now);
  looked.again |= cold_due_ != 0;
  return looked;
}

std::size_t DoorbellPoller::look_at_hot(std::size_t at_most, Looked& looked, Instant now) {
  const std::size_t looks = std::min(hot_.size(), at_most);
  for (std::size_t left = looks; left != 0; --left) {
    if (next_hot_ >= hot_.size()) next_hot_ = 0;
    Page& page = hot_[next_hot_];
    if (look_at(page, looked, now) != News::kNone) {
      page.last_news = now;
    } else if (now - page.last_news >= kHot) {
      cold_.push_back(page);
      remove_at(hot_, next_hot_);
      continue;
    }
    ++next_hot_;
  }
  return looks;
}

void DoorbellPoller::look_at_cold(std::size_t at_most, Looked& looked, Instant now) {
  const std::size_t few = (cold_.size() + kColdPagesPerLook - 1) / kColdPagesPerLook;
  std::size_t left = std::min({std::max(cold_due_, few), cold_.size(), at_most});
  for (; left != 0; --left) {
    if (next_cold_ >= cold_.size()) next_cold_ = 0;
    if (cold_due_ != 0) --cold_due_;
    Page& page = cold_[next_cold_];
    if (look_at(page, looked, now) == News::kNone) {
      ++next_cold_;
    } else {
      page.last_news = now;
      hot_.push_back(page);
      remove_at(cold_, next_cold_);
    }
  }
  if (cold_.empty()) cold_due_ = 0;
}

DoorbellPoller::News DoorbellPoller::look_at(Page& page, Looked& looked, Instant now) {
  const verbs::UarIndex uar = page.uar;
  const std::uint64_t look_before = std::exchange(page.last_look, look_);
  const std::atomic_ref<std::uint64_t> words = words_of(uar);
  if (words.load(std::memory_order_relaxed) == 0) [[likely]]
    return News::kNone;
  const std::uint64_t found = words.exchange(0, std::memory_order_seq_cst);
  const auto qp_word = static_cast<std::uint32_t>(found);
  const auto cq_word = static_cast<std::uint32_t>(found >> 32);
  bool work = false;
  if (cq_word != 0) {
    ++looked.doorbells;
    engine_.cq_word_found(uar, verbs::CqHandle{cq_word & abi::kDoorbellHandleMask}, look_before);
    doorbells_.ring(uar, abi::UarWord::kCq, cq_word, now);
    work = (cq_word & (abi::kCqDoorbellArm | abi::kCqDoorbellArmSolicited)) != 0;
  }
  if (qp_word != 0) {
    ++looked.doorbells;
    doorbells_.ring(uar, abi::UarWord::kQp, qp_word | kMaybeSend, now);
    engine_.qp_word_found(uar, verbs::QpHandle{qp_word & abi::kDoorbellHandleMask});
    work = true;
  }
  looked.again |= work;
  return work ? News::kWork : News::kPoll;
}

}  // namespace pvrdma::device
