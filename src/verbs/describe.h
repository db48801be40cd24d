// Describes the fields of a saved engine, once for each type and for every archive of state/. Each
// description takes its value apart with a structured binding, so that a new member without a description
// does not compile. Thread: values.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "state/stream.h"
#include "verbs/saved.h"

namespace pvrdma::verbs {

// The records of an engine, in stream order. Record kinds below 0x100 belong to the engine.
inline constexpr state::RecordKind kTablesRecord{1, 1};
inline constexpr state::RecordKind kPdRecord{2, 1};
inline constexpr state::RecordKind kMrSlotsRecord{3, 1};
inline constexpr state::RecordKind kMrRecord{4, 1};
inline constexpr state::RecordKind kCqRecord{5, 1};
inline constexpr state::RecordKind kSrqRecord{6, 1};
inline constexpr state::RecordKind kQpRecord{7, 1};
inline constexpr state::RecordKind kGidRecord{8, 1};
inline constexpr state::RecordKind kCountersRecord{9, 1};
inline constexpr state::RecordKind kEngineEndRecord{10, 1};

// Bounds of lists, independent of an adapter's limits: they bound what a reader allocates.
inline constexpr std::uint32_t kSavedSlotsMax = 1u << 18;
inline constexpr std::uint32_t kSavedContextsMax = 1u << 16;
inline constexpr std::uint32_t kSavedWorksMax = 64;  // in one window

// A number with a type of its own: a handle, key or sequence number.
template <typename Archive, typename Number>
void number(Archive& archive, std::string_view name, Number& value, std::uint32_t most = ~0u) {
  std::uint32_t raw = value.value;
  archive.number(name, raw, most);
  value = Number(raw);
}

// Plain bytes without padding, little endian as in guest memory.
template <typename Archive, typename Plain>
void plain(Archive& archive, std::string_view name, Plain& value) {
  static_assert(std::has_unique_object_representations_v<Plain>);
  std::array<std::uint8_t, sizeof(Plain)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(Plain));
  archive.bytes(name, bytes);
  std::memcpy(&value, bytes.data(), sizeof(Plain));
}

// A point in time, held as the time left until then: at most 2^50 ns. No timer of a QP is longer.
template <typename Archive>
void time_left(Archive& archive, std::string_view name, Instant& when) {
  constexpr std::uint64_t kMost = 1ull << 50;
  std::uint64_t left =
      when == Instant::never() ? kMost : static_cast<std::uint64_t>(when.since_start.count());
  archive.number(name, left, kMost);
  when = left == kMost ? Instant::never() : Instant{Duration(static_cast<Duration::rep>(left))};
}

template <typename Archive>
void describe(Archive& archive, guestmem::SavedRing& ring) {
  auto& [pages, own_index, own_index_known] = ring;
  archive.pages("pages", pages, guestmem::kMaxDirectoryPages);
  archive.number("own_index", own_index);
  archive.flag("own_index_known", own_index_known);
}

template <typename Archive>
void describe(Archive& archive, SavedTables& tables) {
  auto& [contexts, next_pd, next_cq, next_srq, next_qp, qpn_generations] = tables;
  archive.list("contexts", contexts, kSavedContextsMax, 4,
               [&archive](std::uint32_t& context) { archive.number("context", context); });
  archive.number("next_pd", next_pd);
  archive.number("next_cq", next_cq);
  archive.number("next_srq", next_srq);
  archive.number("next_qp", next_qp);
  archive.list("qpn_generations", qpn_generations, kSavedSlotsMax, 1,
               [&archive](std::uint8_t& generation) { archive.number("generation", generation); });
}

template <typename Archive>
void describe(Archive& archive, SavedPd& pd) {
  auto& [handle, context] = pd;
  number(archive, "handle", handle);
  number(archive, "context", context);
}

template <typename Archive>
void describe(Archive& archive, SavedMrSlots& slots) {
  auto& [generations, free] = slots;
  archive.list("generations", generations, kSavedSlotsMax, 1,
               [&archive](std::uint8_t& generation) { archive.number("generation", generation); });
  archive.list("free", free, kSavedSlotsMax, 4,
               [&archive](std::uint32_t& slot) { archive.number("slot", slot); });
}

template <typename Archive>
void describe(Archive& archive, SavedMr& mr) {
  auto& [key, kind, valid, access_flags, pd, fast_register_pages, start, length, pages] = mr;
  archive.number("key", key);
  archive.choice("kind", kind, MrKind::kUser, MrKind::kFastRegister);
  archive.flag("valid", valid);
  archive.number("access_flags", access_flags);
  number(archive, "pd", pd);
  archive.number("fast_register_pages", fast_register_pages);
  archive.number("start", start);
  archive.number("length", length);
  archive.pages("pages", pages, guestmem::kMaxDirectoryPages);
}

template <typename Archive>
void describe(Archive& archive, SavedCq& cq) {
  auto& [handle, context, cqe_count, ring, armed, in_error, unannounced, unannounced_solicited] = cq;
  number(archive, "handle", handle);
  number(archive, "context", context);
  archive.number("cqe_count", cqe_count);
  describe(archive, ring);
  archive.choice("armed", armed, Armed::kNo, Armed::kAny);
  archive.flag("in_error", in_error);
  archive.flag("unannounced", unannounced);
  archive.flag("unannounced_solicited", unannounced_solicited);
}

template <typename Archive>
void describe(Archive& archive, SavedSrq& srq) {
  auto& [handle, pd, max_wr, max_sge, limit, ring] = srq;
  number(archive, "handle", handle);
  number(archive, "pd", pd);
  archive.number("max_wr", max_wr);
  archive.number("max_sge", max_sge);
  archive.number("limit", limit);
  describe(archive, ring);
}

template <typename Archive>
void describe(Archive& archive, abi::Sge& sge) {
  plain(archive, "sge", sge);
}

template <typename Archive>
void describe(Archive& archive, SavedWork& work) {
  auto& [state, fast_reg, sges] = work;
  auto& [wr_id, remote_addr, compare_add, swap, rkey, extra_value, length, sent, confirmed, fetched, number_,
         psn, opcode, status, send_flags, sge_count, progress, started, lent, fetches] = state;
  archive.number("wr_id", wr_id);
  archive.number("remote_addr", remote_addr);
  archive.number("compare_add", compare_add);
  archive.number("swap", swap);
  archive.number("rkey", rkey);
  archive.number("extra_value", extra_value);
  archive.number("length", length);
  archive.number("sent", sent, length);
  archive.number("confirmed", confirmed, sent);
  number(archive, "number", number_, MessageNumber::kMask);
  number(archive, "psn", psn, Psn::kMask);
  archive.choice("opcode", opcode, abi::Opcode::kRdmaWrite, abi::Opcode::kRegSigMr);
  archive.choice("status", status, abi::CompletionStatus::kSuccess, abi::CompletionStatus::kGeneral);
  archive.number("send_flags", send_flags);
  archive.choice("state", progress, SendWorkState::State::kQueued, SendWorkState::State::kFailed);
  archive.flag("started", started);
  lent = false;  // the saving side has stopped all paths
  fetches = 0;
  fetched = confirmed;
  if (opcode == abi::Opcode::kFastRegMr) plain(archive, "fast_reg", fast_reg);
  archive.list("sges", sges, kSgeMax, sizeof(abi::Sge),
               [&archive](abi::Sge& sge) { describe(archive, sge); });
  sge_count = static_cast<std::uint8_t>(sges.size());
}

// The sums over the window are computed again on load. `spared_until` starts again, because nobody is to
// blame for the silence during the move itself.
template <typename Archive>
void describe(Archive& archive, SendState& send) {
  auto& [sending, next_number, next_psn, reads_outstanding, stopped, retries_left, rnr_retries_left,
         path_retries_left, spared_until, ack_deadline, rnr_until, drained_reported, waits_for_path,
         window_closed, repeat_at, repeats, repeats_to, bytes_in_flight, read_bytes_in_flight] = send;
  archive.number("sending", sending);
  number(archive, "next_number", next_number, MessageNumber::kMask);
  number(archive, "next_psn", next_psn, Psn::kMask);
  archive.flag("stopped", stopped);
  archive.number("retries_left", retries_left, std::uint8_t{7});
  archive.number("rnr_retries_left", rnr_retries_left, std::uint8_t{7});
  archive.number("path_retries_left", path_retries_left, std::uint8_t{7});
  time_left(archive, "ack_deadline", ack_deadline);
  time_left(archive, "rnr_until", rnr_until);
  archive.flag("drained_reported", drained_reported);
  archive.flag("waits_for_path", waits_for_path);
  archive.flag("window_closed", window_closed);
  time_left(archive, "repeat_at", repeat_at);
  archive.flag("repeats", repeats);
  number(archive, "repeats_to", repeats_to, Psn::kMask);
}

template <typename Archive>
void describe(Archive& archive, UnderWay& under_way) {
  auto& [executed, op, message_bytes, rkey, remote_addr] = under_way;
  archive.number("message_bytes", message_bytes);
  archive.number("executed", executed, message_bytes);
  archive.choice("op", op, RequestOp::kSend, RequestOp::kFetchAdd);
  archive.number("rkey", rkey);
  archive.number("remote_addr", remote_addr);
}

template <typename Archive>
void AtomicReplays::describe(Archive& archive) {
  auto& [entries, next] = *this;
  for (Entry& entry : entries) {
    auto& [original, psn, valid] = entry;
    archive.number("original", original);
    number(archive, "psn", psn, Psn::kMask);
    archive.flag("valid", valid);
  }
  archive.number("next", next, kRdAtomicMax - 1);
}

// Describes a receive that is held. It never is one that broke a rule of its queue: such a receive completes
// before the turn ends.
template <typename Archive>
void describe(Archive& archive, ReceiveWork& receive) {
  auto& [wr_id, sge_count, total_bytes, sges, bad] = receive;
  archive.number("wr_id", wr_id);
  archive.number("sge_count", sge_count, kSgeMax);
  total_bytes = 0;
  for (std::uint32_t i = 0; i < sge_count; ++i) {
    describe(archive, sges[i]);
    total_bytes += sges[i].length;
  }
  bad = false;
}

template <typename Archive>
void describe(Archive& archive, ReceiveState& receive) {
  auto& [expected, psn, under_way, counts_parts, gap, holds_receive, established_reported, last_wqe_reported,
         peer_pauses, early, work, replays] = receive;
  static_cast<void>(peer_pauses);
  static_cast<void>(early);
  number(archive, "expected", expected, MessageNumber::kMask);
  number(archive, "psn", psn, Psn::kMask);
  describe(archive, under_way);
  archive.flag("counts_parts", counts_parts);
  archive.choice("gap", gap, Gap::kNone, Gap::kReported);
  archive.flag("holds_receive", holds_receive);
  archive.flag("established_reported", established_reported);
  archive.flag("last_wqe_reported", last_wqe_reported);
  if (holds_receive) describe(archive, work);
  replays.describe(archive);
}

template <typename Archive>
void describe(Archive& archive, QpAttributes& attributes) {
  auto& [state, path_mtu, qkey, rq_psn, sq_psn, dest_qpn, access_flags, pkey_index, sqd_async_notify,
         max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, dgid,
         sgid_index, ah] = attributes;
  archive.choice("state", state, abi::QpState::kReset, abi::QpState::kErr);
  archive.choice("path_mtu", path_mtu, abi::Mtu::k256, abi::Mtu::k4096);
  archive.number("qkey", qkey);
  number(archive, "rq_psn", rq_psn, Psn::kMask);
  number(archive, "sq_psn", sq_psn, Psn::kMask);
  number(archive, "dest_qpn", dest_qpn, kQpnMax);
  archive.number("access_flags", access_flags, abi::kAccessMask);
  archive.number("pkey_index", pkey_index, std::uint16_t{0});
  archive.flag("sqd_async_notify", sqd_async_notify);
  archive.number("max_rd_atomic", max_rd_atomic);
  archive.number("max_dest_rd_atomic", max_dest_rd_atomic);
  archive.number("min_rnr_timer", min_rnr_timer, std::uint8_t{31});
  archive.number("port_num", port_num, std::uint8_t{1});
  archive.number("timeout", timeout, std::uint8_t{31});
  archive.number("retry_cnt", retry_cnt, std::uint8_t{7});
  archive.number("rnr_retry", rnr_retry, std::uint8_t{7});
  archive.bytes("dgid", dgid.bytes);
  archive.number("sgid_index", sgid_index);
  plain(archive, "ah", ah);
}

template <typename Archive>
void describe(Archive& archive, QueuePair::Identity& identity) {
  auto& [qpn, handle, type, pd, context, signal_all, cap] = identity;  // `context` follows from the PD
  number(archive, "qpn", qpn, kQpnMax);
  number(archive, "handle", handle);
  archive.choice("type", type, abi::QpType::kSmi, abi::QpType::kUd);
  number(archive, "pd", pd);
  archive.flag("signal_all", signal_all);
  plain(archive, "cap", cap);
}

template <typename Archive>
void describe(Archive& archive, SavedQp& qp) {
  auto& [identity, send_cq, recv_cq, has_srq, srq, charged_pages, attributes, local_gid, local_roce,
         send_ring, receive_ring, send, window_head, works, receive, tx_messages, tx_bytes, rx_messages,
         rx_bytes, retransmits] = qp;
  describe(archive, identity);
  number(archive, "send_cq", send_cq);
  number(archive, "recv_cq", recv_cq);
  archive.flag("has_srq", has_srq);
  number(archive, "srq", srq);
  archive.number("charged_pages", charged_pages);
  describe(archive, attributes);
  archive.bytes("local_gid", local_gid.bytes);
  archive.choice("local_roce", local_roce, RoceVersion{}, RoceVersion::kV2);
  describe(archive, send_ring);
  describe(archive, receive_ring);
  describe(archive, send);
  archive.number("window_head", window_head);
  archive.list("works", works, kSavedWorksMax, 1, [&archive](SavedWork& work) { describe(archive, work); });
  describe(archive, receive);
  archive.number("tx_messages", tx_messages);
  archive.number("tx_bytes", tx_bytes);
  archive.number("rx_messages", rx_messages);
  archive.number("rx_bytes", rx_bytes);
  archive.number("retransmits", retransmits);
}

template <typename Archive>
void describe(Archive& archive, SavedGid& gid) {
  auto& [index, value, roce] = gid;
  archive.number("index", index);
  archive.bytes("gid", value.bytes);
  archive.choice("roce", roce, RoceVersion::kV1, RoceVersion::kV2);
}

template <typename Archive>
void describe(Archive& archive, SavedCounts& counts) {
  auto& [pds, mrs, cqs, srqs, qps] = counts;
  archive.number("pds", pds);
  archive.number("mrs", mrs);
  archive.number("cqs", cqs);
  archive.number("srqs", srqs);
  archive.number("qps", qps);
}

template <typename Archive>
void describe(Archive& archive, Counters& counters) {
  auto& [tx_messages, tx_bytes, rx_messages, rx_bytes, read_bytes_served, atomics_served, retransmits,
         timeouts, rnr_naks_sent, rnr_naks_received, sequence_naks_sent, duplicates, access_errors,
         local_errors, remote_errors, retry_exceeded, flushed, cq_overflows, hidden_doorbells,
         events_maybe_armed, bad_doorbells, invalid_ring_indices, dropped_unknown_qp, ud_dropped_qkey,
         ud_dropped_no_receive, ud_dropped_length] = counters;
  archive.number("tx_messages", tx_messages);
  archive.number("tx_bytes", tx_bytes);
  archive.number("rx_messages", rx_messages);
  archive.number("rx_bytes", rx_bytes);
  archive.number("read_bytes_served", read_bytes_served);
  archive.number("atomics_served", atomics_served);
  archive.number("retransmits", retransmits);
  archive.number("timeouts", timeouts);
  archive.number("rnr_naks_sent", rnr_naks_sent);
  archive.number("rnr_naks_received", rnr_naks_received);
  archive.number("sequence_naks_sent", sequence_naks_sent);
  archive.number("duplicates", duplicates);
  archive.number("access_errors", access_errors);
  archive.number("local_errors", local_errors);
  archive.number("remote_errors", remote_errors);
  archive.number("retry_exceeded", retry_exceeded);
  archive.number("flushed", flushed);
  archive.number("cq_overflows", cq_overflows);
  archive.number("hidden_doorbells", hidden_doorbells);
  archive.number("events_maybe_armed", events_maybe_armed);
  archive.number("bad_doorbells", bad_doorbells);
  archive.number("invalid_ring_indices", invalid_ring_indices);
  archive.number("dropped_unknown_qp", dropped_unknown_qp);
  archive.number("ud_dropped_qkey", ud_dropped_qkey);
  archive.number("ud_dropped_no_receive", ud_dropped_no_receive);
  archive.number("ud_dropped_length", ud_dropped_length);
}

}  // namespace pvrdma::verbs
