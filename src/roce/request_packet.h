// From a packet that is due to the piece of a message that it carries. Pure. Thread: values.
#pragma once

#include <string_view>
#include <tl/expected.hpp>

#include "roce/packet.h"
#include "verbs/message.h"
#include "verbs/packets.h"
#include "verbs/path.h"

namespace pvrdma::roce {

// Whether the opcode asks an RC responder for something.
bool is_request(Opcode opcode);

// The request that `packet` makes when it is the next one of the connection, whose `from` and `to` are filled
// in. Of a send that goes on, message_bytes is one more than what has come: more will. Error: the packet
// breaks a rule (IBTA vol. 1, 9.7.4.1), one clause.
tl::expected<verbs::Request, std::string_view> to_request(const Packet& packet,
                                                          const verbs::Connection& connection,
                                                          const verbs::PacketsReceived& state);

}  // namespace pvrdma::roce
