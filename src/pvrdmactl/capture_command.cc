// "capture": writes an adapter's messages as a file of RoCE frames. "adapter capture": the captures that run.

#include "base/utc_text.h"
#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

Table capture_list(const Json& list) {
  Table table({{"ID", Align::kRight},
               {"Adapter"},
               {"Since"},
               {"Bytes", Align::kRight},
               {"Dropped", Align::kRight},
               {"Filter"}});
  for (const Json& each : list) {
    table.add({digits_at(each, "id"), text_at(each, "adapter"),
               utc_text(number_at(each, "started_s"), TimeUnit::kSeconds), digits_at(each, "sent_bytes"),
               digits_at(each, "dropped"), or_dash(text_at(each, "filter"))});
  }
  return table;
}

}  // namespace

Section capture_commands() {
  return {.namespaces = {{"adapter capture", "captures that run on this host"}},
          .commands = {
              {.words = "capture",
               .help = "write an adapter's RDMA traffic to a pcapng file, as RoCE frames",
               .arguments = {named("NAME", "the adapter", Names::kAdapters),
                             {.letter = 'w',
                              .name = "write",
                              .kind = Kind::kFile,
                              .help = "the file; - is standard output",
                              .required = true},
                             {.letter = 'f',
                              .name = "filter",
                              .kind = Kind::kText,
                              .help = "only messages that match this filter: \"qp 17 and op write\"",
                              .shows = "expression",
                              .member = "/filter"},
                             {.letter = 's',
                              .name = "snaplen",
                              .kind = Kind::kNumber,
                              .help = "keep this much of each frame; default: 262144",
                              .shows = "bytes",
                              .member = "/snaplen"},
                             {.letter = 'c',
                              .name = "count",
                              .kind = Kind::kNumber,
                              .help = "end after this many frames",
                              .shows = "frames",
                              .member = "/count"},
                             {.name = "duration",
                              .kind = Kind::kNumber,
                              .help = "end after this many seconds",
                              .shows = "seconds",
                              .member = "/duration"}},
               .method = Method::kPost,
               .path = "/v1/adapters/{NAME}/capture",
               .transfer = Transfer::kCapture,
               .file = "write"},
              {.words = "adapter capture list",
               .help = "list the captures that run on this host",
               .arguments = {other_host()},
               .path = "/v1/captures",
               .table = capture_list},
              {.words = "adapter capture end",
               .help = "end a capture; its file is complete",
               .arguments =
                   {{.name = "ID", .positional = true, .help = "the capture, as listed", .required = true}},
               .method = Method::kDelete,
               .path = "/v1/captures/{ID}"}}};
}

}  // namespace pvrdma::ctl
