#include "transport/tcp/session.h"

#include <utility>

namespace pvrdma::transport::tcp {

Session::Session(Context& context, Porter& porter, std::unique_ptr<Stream> stream, const IpAddress& from)
    : context_(context),
      porter_(porter),
      from_(from),
      connection_(context, *this, Connection::Role::kAcceptor, std::move(stream)) {}

void Session::on_greeting(const Frame& frame, Instant now) {
  if (const auto* hello = std::get_if<Hello>(&frame.body)) porter_.on_hello(*this, *hello, now);
}

void Session::admit(HostId peer, const Hello& hello, Instant now) {
  lane_ = hello.lane;
  connection_.greet(Welcome{.host = HostName(context_.options.host_name), .connection = hello.connection},
                    now);
  connection_.establish(peer, now);
}

}  // namespace pvrdma::transport::tcp
