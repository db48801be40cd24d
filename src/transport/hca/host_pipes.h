// HostPipes: the pipes between this host and another: the one it dialled and the one it accepted. Dials again
// when that breaks, and says whether the host is up.
//
// Made when its host is first mentioned and kept until Hca goes, so that paths can hold it.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "transport/hca/pipe.h"

namespace pvrdma::transport::hca {

// Between attempts.
inline constexpr Duration kRedialFirst = std::chrono::milliseconds(50);
inline constexpr Duration kRedialMax = std::chrono::seconds(1);
// A dial that has no result by then never has one.
inline constexpr Duration kDialMax = std::chrono::seconds(30);

class HostPipes {
 public:
  // What Hca does for it.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Begins to make a pipe; on_dialled() has the result. May throw bad_alloc.
    virtual void dial(HostPipes& pipes, std::uint64_t attempt) = 0;
    virtual void bury(std::unique_ptr<Buried> dead) = 0;
  };

  // Both borrowed; they outlive this.
  HostPipes(Context& context, Owner& owner, HostId id) : context_(context), owner_(owner), id_(id) {}
  ~HostPipes();
  HostPipes(const HostPipes&) = delete;
  HostPipes& operator=(const HostPipes&) = delete;

  HostId id() const { return id_; }
  const std::string& name() const { return name_; }
  // `denied`: nothing is dialled or accepted, and why; empty: it is.
  void configure(const std::string& name, const std::string& denied, Instant now);
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);
  // The device is gone, or its port: nothing gets through.
  void break_off(const std::string& trouble, Instant now);

  // The next two never on the stack of one of its pipes.
  void on_dialled(std::uint64_t attempt, Result<std::unique_ptr<PipeEnd>> end, Instant now);
  void adopt(std::unique_ptr<PipeEnd> end, Instant now);

  bool is_up() const { return is_up_; }
  const std::string& trouble() const { return trouble_; }
  std::uint64_t falls() const { return falls_; }

  // 0: no room now, Inbound::on_ready() follows.
  std::uint32_t room(std::uint32_t wanted) { return is_up_ ? dialled_->room(wanted) : 0; }
  void send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload, Instant now);
  bool lend(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
            const guestmem::SpanList& payload, Instant now) {
    return is_up_ && dialled_->lend(engine, segment, request, payload, now);
  }
  bool lend(SegmentId segment, const verbs::Response& response, std::uint32_t rkey,
            const guestmem::SpanList& payload);
  void expect_loan(const verbs::Engine& engine, SegmentId segment, const verbs::Request& request,
                   Instant now);
  void stop(SegmentId segment, const verbs::Connection& connection);
  void stop_all(const verbs::Engine& engine);
  void send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
            Instant now);
  void send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
            Instant now);

  void turn(Instant now, bool may_ask);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  void end_dialled(Instant now);
  void end_accepted();
  std::unique_ptr<Pipe> make(Pipe::Role role, std::unique_ptr<PipeEnd>& end, Instant now);
  void tell(Instant now);
  void bury(std::unique_ptr<Pipe>& pipe);
  void dial_later(Instant now);
  void note(const char* what, Instant now);

  Context& context_;
  Owner& owner_;
  const HostId id_;
  std::string name_;
  std::string denied_ = "nothing is known of the host";
  std::unique_ptr<Pipe> dialled_;
  std::unique_ptr<Pipe> accepted_;
  std::uint64_t attempt_ = 0;
  Instant dialling_until_{};  // an attempt is under way
  Instant dial_at_{};
  Duration pause_ = kRedialFirst;
  Instant usable_at_ = Instant::never();  // of dialled_, once it stands
  Instant used_since_ = Instant::never();
  Duration proof_{0};
  bool is_up_ = false;
  struct {
    bool changed = false;
    bool restored = false;
    bool ready = false;
  } news_;  // that Inbound is not told yet
  std::string trouble_;
  std::string noted_;  // the last trouble in the log
  std::uint64_t falls_ = 0;
  log::LogLimiter limiter_{8, std::chrono::seconds(10)};
};

}  // namespace pvrdma::transport::hca
