// Checkpoints: writes VMs to files of their hosts, and restores VMs from such files.
#include <utility>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"

namespace pvrdma::api {
namespace {

constexpr std::size_t kPrintedBytesMax = 512u << 10;  // the printed text may be fifty times as large
constexpr std::string_view kStreamType = "application/octet-stream";

using motion::CheckpointService;
using motion::CheckpointWish;

Result<CheckpointWish> wish_of(const Call& call, std::string body) {
  auto wish = body_of<CheckpointWish>(
      Call{.method = {}, .path = {}, .query = {}, .body = std::move(body), .names = {}});
  if (wish) wish->adapter = call.names[0];
  return wish;
}

Reply start(CheckpointService& checkpoints, const Call& call) {
  const auto wish = wish_of(call, call.body);
  if (!wish) return refuse(wish.error());
  auto stream = checkpoints.start(*wish);
  if (!stream) return refuse(stream.error());
  return {200, {}, std::string(kStreamType), *std::move(stream)};
}

Reply finish(CheckpointService& checkpoints, const Call& call) {
  const auto finished = checkpoints.finish(call.names[0]);
  return finished ? ok(text_of(Nothing{})) : refuse(finished.error());
}

// The body has one line with the JSON that POST .../checkpoint takes, and after it the adapter's state.
Reply restore(CheckpointService& checkpoints, const Call& call) {
  const auto line_end = call.body.find('\n');
  if (line_end == std::string::npos)
    return refuse(ErrorKind::kInvalid, "the body must be a line of JSON and, after it, the adapter's state");
  const auto wish = wish_of(call, call.body.substr(0, line_end));
  if (!wish) return refuse(wish.error());
  const auto restored = checkpoints.restore(*wish, std::string_view(call.body).substr(line_end + 1));
  return restored ? ok(text_of(*restored)) : refuse(restored.error());
}

}  // namespace

void add_checkpoint_routes(Router& router, const ApiParts& parts) {
  router.add(
      {.method = "POST",
       .path = "/v1/adapters/{adapter}/checkpoint",
       .summary =
           "Writes the adapter's VM to a file; answers with lines of JSON, the last of which says how many "
           "bytes of state follow",
       .body = schema_for<CheckpointWish>,
       .answer = bytes_schema,
       .handler = [&checkpoints = parts.checkpoints](const Call& call) { return start(checkpoints, call); },
       .streams = true});
  router.add({"POST", "/v1/adapters/{adapter}/checkpoint/finish",
              "Confirms that the checkpoint was stored: the VM's QEMU ends", schema_for<Nothing>,
              schema_for<Nothing>,
              [&checkpoints = parts.checkpoints](const Call& call) { return finish(checkpoints, call); }});
  router.add(
      {.method = "POST",
       .path = "/v1/adapters/{adapter}/restore",
       .summary = "Restores the adapter's VM from a checkpoint: a NewCheckpoint on one line, and the bytes "
                  "of state; answers when the VM goes on",
       .body = bytes_schema,
       .answer = schema_for<motion::RestoreReport>,
       .handler = [&checkpoints = parts.checkpoints](const Call& call) { return restore(checkpoints, call); },
       .binary_bytes_max = kBinaryBodyBytesMax});
  router.add({.method = "POST",
              .path = "/v1/state/print",
              .summary = "An adapter's saved state, the bytes of a checkpoint, as text",
              .body = bytes_schema,
              .answer = schema_for<StateText>,
              .handler =
                  [&checkpoints = parts.checkpoints](const Call& call) {
                    return ok(text_of(StateText{checkpoints.print_state(call.body)}));
                  },
              .binary_bytes_max = kPrintedBytesMax});
}

}  // namespace pvrdma::api
