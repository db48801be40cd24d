// CheckpointService: writes VMs to files of their host, and restores VMs from such files.
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

// Describes a checkpoint to write, or one to restore.
struct CheckpointWish {
  std::string adapter;  // the VM's
  std::string monitor;  // path of its QEMU's QMP socket; empty: the path that vmm/vm_monitors.h gives
  std::string file;     // absolute path; QEMU creates, replaces or reads the file, with its own rights
};

struct RestoreReport {
  std::string vm;
  QemuProcess qemu;
  Duration took{};
};

class CheckpointService {
 public:
  virtual ~CheckpointService() = default;

  // Starts a checkpoint. The stream delivers lines of JSON (moves/checkpoint_line.h). One line says how many
  // bytes of the adapter's state follow it. After these bytes the stream delivers nothing until finish(), for
  // ten minutes at most. If the stream is destroyed before finish(), or ends with an error, the VM runs
  // again. Errors: kNotFound: no such adapter; kConflict: a checkpoint of it is under way, or too many
  // checkpoints are; otherwise the shard is stopping or did not answer in time.
  virtual Result<std::unique_ptr<ByteStream>> start(const CheckpointWish& wish) = 0;
  // The client has received the whole checkpoint, so its QEMU ends. Blocks for a bounded time. Errors:
  // kNotFound: there is no checkpoint, or not all of it was delivered; otherwise the QEMU does not end.
  virtual Result<void> finish(const std::string& adapter) = 0;
  // Restores a VM in a QEMU that waits for it, with the state that a checkpoint gave. Blocks until the VM
  // runs, ten minutes at most. Errors: kNotFound: no such adapter; kInvalid: the state, the name of the file
  // or the monitor's path is refused; kUnavailable: the shard or the QEMU did not answer in time; otherwise
  // kConflict.
  virtual Result<RestoreReport> restore(const CheckpointWish& wish, std::string_view state) = 0;
  // A saved state as text, one field per line. Invalid input is printed up to the error.
  virtual std::string print_state(std::string_view state) = 0;
};

}  // namespace pvrdma::motion
