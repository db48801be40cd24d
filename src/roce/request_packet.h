// Turns a packet that is due into the piece of a message that it carries. Pure. Thread: values.
#pragma once

#include <string_view>
#include <tl/expected.hpp>

#include "roce/packet.h"
#include "verbs/message.h"
#include "verbs/packets.h"
#include "verbs/path.h"

namespace pvrdma::roce {

// Whether a packet of that opcode is a request to an RC responder.
bool is_request(Opcode opcode);

// The request that `packet` makes if it is the next one of the connection, with `from` and `to` filled in. If
// more packets of a send follow, message_bytes is one more than the bytes that have come, because its length
// is not known yet. Error: the rule that the packet breaks (IBTA vol. 1, 9.7.4.1), as one clause.
tl::expected<verbs::Request, std::string_view> to_request(const Packet& packet,
                                                          const verbs::Connection& connection,
                                                          const verbs::PacketsReceived& state);

}  // namespace pvrdma::roce
