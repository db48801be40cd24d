// CheckpointService: VMs that are written to files of their host, and VMs that go on from there.
//
// Thread: any that may block.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/byte_stream.h"
#include "base/result.h"
#include "base/time.h"
#include "motion/qemu_process.h"

namespace pvrdma::motion {

// A VM is to be written to a file, or to go on from there.
struct CheckpointWish {
  std::string adapter;  // the VM's
  std::string monitor;  // path of its QEMU's QMP socket; empty: where vmm/vm_monitors.h has it
  std::string file;     // absolute; QEMU creates, replaces or reads it, with its own rights
};

struct RestoreReport {
  std::string vm;
  QemuProcess qemu;
  Duration took{};
};

class CheckpointService {
 public:
  virtual ~CheckpointService() = default;

  // Begins a checkpoint. The stream brings lines of JSON (moves/checkpoint_line.h) and, behind the line that
  // says how many, the bytes of the adapter's state; then nothing until finish(), for ten minutes at most. If
  // the stream is destroyed before that, or ends with an error, the VM goes on. Errors: ENOENT: no such
  // adapter; EBUSY: one is under way, or too many are; otherwise the shard is stopping or did not answer in
  // time.
  virtual Result<std::unique_ptr<ByteStream>> start(const CheckpointWish& wish) = 0;
  // The client has all of the checkpoint: its QEMU ends. Blocks for a bounded time. Errors: ENOENT: there is
  // none, or not all of it has come; otherwise the QEMU does not end.
  virtual Result<void> finish(const std::string& adapter) = 0;
  // Lets a VM go on in a QEMU that waits, with the state that a checkpoint gave. Blocks until it does, ten
  // minutes at most. Errors: ENXIO: no such adapter; otherwise one sentence.
  virtual Result<RestoreReport> restore(const CheckpointWish& wish, std::string_view state) = 0;
  // A saved state as text, a field a line; invalid input is printed up to the error.
  virtual std::string print_state(std::string_view state) = 0;
};

}  // namespace pvrdma::motion
