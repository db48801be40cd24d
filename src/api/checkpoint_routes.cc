// Checkpoints: VMs written to files of their hosts, and VMs that go on from there.
#include <cerrno>
#include <utility>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

constexpr std::size_t kPrintedBytesMax = 512u << 10;  // the text may be fifty times as much
constexpr std::string_view kStreamType = "application/octet-stream";

Reply start(control::AdapterControl& control, const Call& call) {
  const auto body = body_of<CheckpointBody>(call);
  if (!body) return refuse(body.error());
  auto stream =
      control.start_checkpoint({.adapter = call.names[0], .file = body->file, .monitor = body->monitor});
  if (!stream) return refuse(stream.error());
  return {200, {}, std::string(kStreamType), *std::move(stream)};
}

Reply finish(control::AdapterControl& control, const Call& call) {
  const auto finished = control.finish_checkpoint(call.names[0]);
  return finished ? ok(text_of(Nothing{})) : refuse(finished.error());
}

// The body: what a POST of the checkpoint says, on one line, and the state.
Reply restore(control::AdapterControl& control, const Call& call) {
  const auto line_end = call.body.find('\n');
  if (line_end == std::string::npos)
    return refuse(400, "the body must be a line of JSON and, behind it, the adapter's state");
  const auto wish = body_of<CheckpointBody>(
      Call{.method = {}, .path = {}, .query = {}, .body = call.body.substr(0, line_end), .names = {}});
  if (!wish) return refuse(wish.error());
  const auto restored =
      control.restore({.adapter = call.names[0], .file = wish->file, .monitor = wish->monitor},
                      std::string_view(call.body).substr(line_end + 1));
  if (!restored) {
    const int code = restored.error().code;
    return refuse(code == ENXIO ? 404 : code == EINVAL ? 400 : 409, restored.error().message);
  }
  return ok(text_of(*restored));
}

}  // namespace

void add_checkpoint_routes(Router& router, const ApiParts& parts) {
  router.add(
      {"POST", "/v1/adapters/{adapter}/checkpoint",
       "Writes the adapter's VM to a file; lines of JSON, the last with how many bytes of state follow",
       schema_for<CheckpointBody>, bytes_schema,
       [&control = parts.control](const Call& call) { return start(control, call); }});
  router.add({"POST", "/v1/adapters/{adapter}/checkpoint/finish",
              "The checkpoint was kept: the VM's QEMU ends", schema_for<Nothing>, schema_for<Nothing>,
              [&control = parts.control](const Call& call) { return finish(control, call); }});
  router.add({.method = "POST",
              .path = "/v1/adapters/{adapter}/restore",
              .summary =
                  "Lets the adapter's VM go on from a checkpoint: a NewCheckpoint on one line, and the "
                  "bytes of state; answers when it does",
              .body = bytes_schema,
              .answer = schema_for<control::RestoredVm>,
              .handler = [&control = parts.control](const Call& call) { return restore(control, call); },
              .binary_bytes_max = kBinaryBodyBytesMax});
  router.add(
      {.method = "POST",
       .path = "/v1/state/print",
       .summary = "An adapter's saved state, the bytes of a checkpoint, as text",
       .body = bytes_schema,
       .answer = schema_for<StateText>,
       .handler = [&control = parts.control](
                      const Call& call) { return ok(text_of(StateText{control.print_state(call.body)})); },
       .binary_bytes_max = kPrintedBytesMax});
}

}  // namespace pvrdma::api
