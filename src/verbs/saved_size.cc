#include "verbs/saved_size.h"

#include <limits>
#include <utility>

#include "state/writer.h"
#include "verbs/describe.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint64_t kRunBytes = 12;  // of one entry of a page list: an address and a count
constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

template <typename Saved>
std::uint64_t record_bytes(Saved largest) {
  state::Writer writer;
  const std::size_t without = writer.untaken();
  writer.begin({});
  describe(writer, largest);
  writer.end();
  return writer.untaken() - without;
}

// How many bytes one element adds to the list `list` of a Saved.
template <typename Saved, typename List>
std::uint64_t element_bytes(List Saved::*list) {
  Saved one;
  (one.*list).resize(1);
  return record_bytes(one) - record_bytes(Saved{});
}

// Leaves out the pages that the QP is charged for, but includes the state page, which each of its rings
// names.
SavedQp largest_qp(const Limits& limits) {
  SavedQp qp;
  SavedWork work{.state = {}, .fast_reg = {}, .sges = std::vector<abi::Sge>(limits.max_sge)};
  work.state.opcode = abi::Opcode::kFastRegMr;
  qp.works.assign(kSavedWorksMax, work);
  qp.receive.holds_receive = true;
  qp.receive.receive.sge_count = limits.max_sge;
  qp.send_ring.pages = {0};
  qp.receive_ring.pages = {0};
  return qp;
}

}  // namespace

std::uint64_t saved_bytes_max(const Limits& limits, std::uint64_t pages) {
  const std::uint64_t tables = record_bytes(SavedTables{}) +
                               limits.max_context * element_bytes(&SavedTables::contexts) +
                               limits.max_qp * element_bytes(&SavedTables::qpn_generations);
  const std::uint64_t slots =
      record_bytes(SavedMrSlots{}) +
      limits.max_mr * (element_bytes(&SavedMrSlots::generations) + element_bytes(&SavedMrSlots::free));
  const std::uint64_t bytes =
      tables + slots + limits.max_pd * record_bytes(SavedPd{}) + limits.max_mr * record_bytes(SavedMr{}) +
      limits.max_cq * record_bytes(SavedCq{}) + limits.max_srq * record_bytes(SavedSrq{}) +
      limits.max_qp * record_bytes(largest_qp(limits)) + limits.gid_table_length * record_bytes(SavedGid{}) +
      record_bytes(Counters{}) + record_bytes(SavedCounts{});
  return pages > (kUnbounded - bytes) / kRunBytes ? kUnbounded : bytes + pages * kRunBytes;
}

}  // namespace pvrdma::verbs
