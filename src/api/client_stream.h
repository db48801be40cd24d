// ClientStream: the server's side of one connection, as cpp-httplib reads and writes it. It blocks, and it
// has limits in time and bytes for the whole connection. TlsClientStream and PlainClientStream move the
// bytes.
//
// Thread: one at a time; `closing` may be set by another.
#pragma once

#include <atomic>
#include <chrono>
#include <httplib.h>
#include <memory>
#include <span>
#include <string>
#include <sys/types.h>

#include "base/fd.h"
#include "tls/stream.h"

namespace pvrdma::api {

struct StreamLimits {
  std::chrono::milliseconds silence;  // longest time without a byte
  std::chrono::milliseconds read;     // for the handshake and all reads together
  std::chrono::milliseconds write;    // all writes of an answer, or of a piece of a stream, from the first on
  std::size_t read_bytes_max = 0;
};

class ClientStream : public httplib::Stream {
 public:
  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* data, std::size_t size) override;
  ssize_t write(const char* data, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;

  // Allows `bytes` more to be read.
  void allow(std::size_t bytes) { read_bytes_max_ += bytes; }
  // From the next write on, a new time limit for writing runs.
  void begin_piece() { write_deadline_ = {}; }
  // Tells the client that nothing more comes, and lets sent data arrive.
  void finish();

 protected:
  // `closing` is borrowed. Once it is true, all waiting ends.
  ClientStream(const StreamLimits& limits, const std::atomic<bool>& closing);

  // As the functions of tls::Stream with these names.
  virtual tls::Transfer read_some(std::span<std::byte> into) = 0;
  virtual tls::Transfer write_some(std::span<const std::byte> from) = 0;
  virtual bool holds_input() const { return false; }
  virtual void shut_down() {}

  // Call it after a read or handshake that could not complete. Returns true if another attempt is worthwhile.
  bool wait_to_read(tls::Io io) const { return wait_for(io, read_deadline_); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  bool wait_for(tls::Io io, Time deadline) const;
  bool wait(short events, Time deadline) const;

  const StreamLimits limits_;
  const std::atomic<bool>& closing_;
  const Time read_deadline_;
  Time write_deadline_{};  // starts with the first write of a piece
  std::size_t read_bytes_max_;
  std::size_t read_bytes_ = 0;
};

class TlsClientStream final : public ClientStream {
 public:
  TlsClientStream(std::unique_ptr<tls::Stream> stream, const StreamLimits& limits,
                  const std::atomic<bool>& closing);

  bool handshake();
  socket_t socket() const override { return stream_->fd(); }

 private:
  tls::Transfer read_some(std::span<std::byte> into) override { return stream_->read(into); }
  tls::Transfer write_some(std::span<const std::byte> from) override { return stream_->write(from); }
  bool holds_input() const override { return stream_->holds_input(); }
  void shut_down() override { stream_->shut_down(); }

  const std::unique_ptr<tls::Stream> stream_;
};

class PlainClientStream final : public ClientStream {
 public:
  PlainClientStream(Fd socket, const StreamLimits& limits, const std::atomic<bool>& closing);

  socket_t socket() const override { return socket_.get(); }

 private:
  tls::Transfer read_some(std::span<std::byte> into) override;
  tls::Transfer write_some(std::span<const std::byte> from) override;

  const Fd socket_;
};

}  // namespace pvrdma::api
