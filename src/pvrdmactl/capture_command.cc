// "capture": writes an adapter's messages as a file of RoCE frames.
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

Section capture_commands() {
  return {.namespaces = {},
          .commands = {{.words = "capture",
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
                        .file = "write"}}};
}

}  // namespace pvrdma::ctl
