// TlsStream: a server's side of one TLS connection (tls::Stream) as cpp-httplib reads and writes it:
// blocking, with limits in time and bytes that hold for the connection as a whole.
//
// Thread: one at a time; `closing` may be set by another.
#pragma once

#include <atomic>
#include <chrono>
#include <httplib.h>
#include <memory>
#include <string>
#include <sys/types.h>

#include "tls/stream.h"

namespace pvrdma::control {

struct TlsLimits {
  std::chrono::milliseconds silence;  // without a byte
  std::chrono::milliseconds read;     // handshake and all reads together
  std::chrono::milliseconds write;    // all writes together, from the first
  std::size_t read_bytes_max = 0;
};

class TlsStream final : public httplib::Stream {
 public:
  // `closing` is borrowed: once it is true, all waiting ends.
  TlsStream(std::unique_ptr<tls::Stream> stream, const TlsLimits& limits, const std::atomic<bool>& closing);

  bool handshake();
  // Says that no more comes and lets what was sent arrive.
  void finish();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* data, std::size_t size) override;
  ssize_t write(const char* data, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return stream_->fd(); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  // After an attempt that was not done: true when it is worth trying again.
  bool wait_for(tls::Io io, Time deadline) const;
  bool wait(short events, Time deadline) const;

  const std::unique_ptr<tls::Stream> stream_;
  const TlsLimits limits_;
  const std::atomic<bool>& closing_;
  const Time read_deadline_;
  Time write_deadline_{};  // from the first write on
  std::size_t read_bytes_ = 0;
};

}  // namespace pvrdma::control
