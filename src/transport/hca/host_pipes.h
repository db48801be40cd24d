// HostPipes: the two pipes between this shard and a shard of another host: the one that this shard dialled
// and the one that it accepted. It dials again when the first breaks, and says whether the peer is up.
//
// Between the first shards of two hosts, a pipe is always dialled. Other pipes are dialled when a path to the
// peer is wanted (prepare()), and closed when no path and no datagram has used them for a minute.
//
// It is made when its host is first mentioned and lives as long as the Hca, so that paths can hold it. Pipes
// come and go: a path asks for the current pipe at each call and uses it only until the call ends.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "transport/demand.h"
#include "transport/hca/introduction.h"
#include "transport/hca/pipe.h"

namespace pvrdma::transport::hca {

// The pause between attempts to dial.
inline constexpr Duration kRedialFirst = std::chrono::milliseconds(50);
inline constexpr Duration kRedialMax = std::chrono::seconds(1);

class HostPipes {
 public:
  // Both borrowed; they outlive this.
  HostPipes(HcaShared& shared, Introducer& introducer, HostId id)
      : shared_(shared), introducer_(introducer), peer_{.id = id} {}
  ~HostPipes();
  HostPipes(const HostPipes&) = delete;
  HostPipes& operator=(const HostPipes&) = delete;

  const HcaPeer& peer() const { return peer_; }
  // `denied`: why no pipe may exist with the peer; empty: pipes may exist.
  void configure(const HcaPeer& peer, const std::string& denied, Instant now);
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);
  // The device or its port failed: nothing gets through.
  void break_off(const std::string& trouble, Instant now);
  // Takes over a pipe that the other host dialled. Never called from within a pipe.
  void adopt(std::unique_ptr<PipeEnd> end, Instant now);

  // Messages to the peer go another way and want a pipe: dials until there is one, or that way rests.
  void prepare();
  // This object. As long as somebody has the pointer, the pipe is needed (Demand).
  std::shared_ptr<HostPipes> use(Instant now) { return demand_.use(*this, now); }
  void need(Instant now) { demand_.need(now); }

  bool is_up() const { return is_up_; }
  // Whether there is no pipe because nothing needs one.
  bool rests() const { return dialled_ == nullptr && !is_needed(shared_.clock.now()); }
  // Why it is not up. Empty: it is up, or a pipe is being made, or it rests.
  const std::string& trouble() const { return trouble_; }
  std::uint64_t falls() const { return falls_; }

  // The pipe for requests and datagrams from here. Null: the host is not up; Inbound::on_ready() follows when
  // it is.
  Pipe* requests() { return is_up_ ? dialled_.get() : nullptr; }
  // The pipe for answers to the other host's requests. Null: there is no such pipe.
  Pipe* answers() { return accepted_.get(); }

  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);

  using Lanes = std::function<LaneState(HostId)>;
  void turn(Instant now, const Lanes& lanes);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  struct Job;

  void look_after_pipes(Instant now);
  void dial_if_needed(Instant now, const Lanes& lanes);
  void dial();
  void on_dialled(Job& job);
  void end_dialled(Instant now);
  std::unique_ptr<Pipe> make(Pipe::Role role, std::unique_ptr<PipeEnd>& end, Instant now);
  void tell(Instant now);
  void bury(std::unique_ptr<Pipe>& pipe);
  void dial_later(Instant now);
  void note(const char* what, Instant now);
  void give_up_dial();
  // Whether both ends are the first shards of their hosts.
  bool leads_to_first() const;
  bool is_needed(Instant now) const;
  void rest_if_idle(Instant now);
  void report_connected() const;

  HcaShared& shared_;
  Introducer& introducer_;
  HcaPeer peer_;
  std::string denied_ = "nothing is known of the host";
  Demand demand_;
  bool is_wanted_ = false;  // by prepare(), until it is up or nothing waits for it
  std::unique_ptr<Pipe> dialled_;
  std::unique_ptr<Pipe> accepted_;
  std::shared_ptr<Job> dialling_;  // null: no dial is in progress
  Instant dial_at_{};
  Duration pause_ = kRedialFirst;
  Instant usable_at_ = Instant::never();  // when dialled_ may be used, once it is connected
  Instant used_since_ = Instant::never();
  Duration proof_{0};
  bool is_up_ = false;
  struct {
    bool changed = false;
    bool restored = false;
    bool ready = false;
  } news_;  // what Inbound has not been told yet
  std::string trouble_;
  std::string noted_;  // the trouble logged last
  std::uint64_t falls_ = 0;
  log::LogLimiter limiter_{8, std::chrono::seconds(10)};
};

}  // namespace pvrdma::transport::hca
