#include "adapters/kept_record.h"

#include <fcntl.h>
#include <utility>

#include "base/unix_listener.h"
#include "state/reader.h"
#include "vmm/vmm_folder.h"

namespace pvrdma::adapters {

Fd GivenBack::copy(KeptId id) const {
  const auto found = fds.find(id);
  return found != fds.end() ? Fd(::fcntl(found->second.get(), F_DUPFD_CLOEXEC, 0)) : Fd();
}

void remove_files(const GivenBack& given) {
  const Fd listener = given.copy(given.record.listener);
  const std::string socket = listener ? remove_file_of(listener) : "";
  if (!socket.empty()) vmm::remove_empty_folder_beside(socket);
}

void skip_kept_record(state::Reader& reader) {
  KeptRecord known;
  static_cast<void>(reader.next());
  describe(reader, known);
}

Result<GivenBack> read_kept(std::map<KeptId, Fd> fds, std::vector<std::byte> stream) {
  GivenBack given{.fds = std::move(fds), .stream = std::move(stream), .record = {}};
  state::Reader reader(given.stream);
  const auto record = reader.next();
  if (record && record->kind == kKeptRecord)
    describe(reader, given.record);
  else
    reader.refuse("it does not begin with the record of a kept adapter");
  if (reader.failed()) return Failure(reader.result().error());
  return given;
}

}  // namespace pvrdma::adapters
