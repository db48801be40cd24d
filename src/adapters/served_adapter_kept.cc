// Keeping an adapter for the daemon's next process, and taking it back there. ADR 20.
#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <utility>

#include "adapters/served_adapter.h"
#include "base/log.h"
#include "device/eventfd_signal.h"
#include "guestmem/host_mapping.h"
#include "state/reader.h"
#include "state/writer.h"

namespace pvrdma::adapters {
namespace {

// Collects the numbers of descriptors, and copies of those that are not kept yet.
class Collector {
 public:
  Collector(KeptAdapter& kept, const std::function<bool(KeptId)>& is_kept) : kept_(kept), is_kept_(is_kept) {}

  // A descriptor that is used twice is copied once.
  void add(KeptId id, int fd) {
    kept_.ids.push_back(id);
    if (is_kept_(id) || kept_.fds.contains(id)) return;
    Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (copy)
      kept_.fds.emplace(id, std::move(copy));
    else
      lacks_ = true;
  }
  bool lacks() const { return lacks_; }

 private:
  KeptAdapter& kept_;
  const std::function<bool(KeptId)>& is_kept_;
  bool lacks_ = false;
};

std::vector<std::byte> to_stream(KeptRecord& record, const std::function<void(state::Writer&)>& save) {
  state::Writer writer;
  writer.begin(kKeptRecord);
  describe(writer, record);
  writer.end();
  if (record.has_client) save(writer);
  return writer.finish();
}

}  // namespace

// Reuses the numbers and descriptors of the previous process. If one is missing or invalid, only the client
// loses its adapter; the adapter itself is made all the same.
Result<void> ServedAdapter::begin_keeping(const GivenBack* given) {
  counter_id_ = given != nullptr ? given->record.counter : parts_.keeping->next_id();
  listener_id_ = given != nullptr ? given->record.listener : parts_.keeping->next_id();
  auto counter = keep::ChangeCounter::create(given != nullptr ? given->copy(counter_id_) : Fd());
  if (!counter) {
    counter_id_ = parts_.keeping->next_id();
    counter = keep::ChangeCounter::create();
  }
  if (!counter) return Failure(std::move(counter).error());
  counter_ = *std::move(counter);
  return {};
}

void ServedAdapter::note_change() {
  if (parts_.keeping == nullptr) return;
  counter_->bump();
  call_keeper();
}

void ServedAdapter::call_keeper() {
  if (parts_.keeping != nullptr && !std::exchange(is_to_be_kept_, true)) parts_.keeping->notice();
}

KeptAdapter ServedAdapter::keep(device::Adapter::Objects objects, const std::function<bool(KeptId)>& is_kept,
                                Instant now) {
  KeptAdapter kept{
      .name = port_.name(), .fds = {}, .ids = {}, .stream = {}, .has_client = false, .trouble = {}};
  KeptRecord record{.listener = listener_id_,
                    .counter = counter_id_,
                    .changes = counter_->value(),
                    .has_client = has_client(),
                    .has_objects = objects == device::Adapter::Objects::kSaved,
                    .doorbells = 0,
                    .client = {}};
  Collector collector(kept, is_kept);
  collector.add(listener_id_, server_->listen_fd());
  collector.add(counter_id_, counter_->fd());
  if (record.has_client)
    kept.trouble = keep_client(
        record, [&collector](KeptId id, int fd) { collector.add(id, fd); }, objects);
  if (collector.lacks()) kept.trouble = "there were no file descriptors left (raise RLIMIT_NOFILE)";
  if (!kept.trouble.empty()) record.has_client = false;
  kept.has_client = record.has_client;
  kept.stream = to_stream(record, [&](state::Writer& writer) {
    if (record.has_objects)
      seated_->adapter().save(writer, std::nullopt, now);
    else
      seated_->adapter().save_without_objects(writer, now);
  });
  return kept;
}

// Why the client cannot be kept; empty: it can.
std::string ServedAdapter::keep_client(KeptRecord& record, const AddKept& add,
                                       device::Adapter::Objects objects) {
  const ClientRecord& noted = *seated_->record();
  if (auto trouble = noted.trouble(); !trouble.empty()) return trouble;
  if (!seated_->seat().established()) return "its VMM has only just connected";
  record.client.session.max_request_bytes = seated_->seat().max_request_bytes();
  // A record without objects does not include messages in flight, because these change all the time.
  if (objects == device::Adapter::Objects::kSaved) {
    auto session = seated_->seat().save();
    if (!session) return session.error().message;
    if (seated_->adapter().is_stopped()) return "it is stopped: its VM is being moved, or written to a file";
    record.client.session = *std::move(session);
    for (const ClientFd& each : seated_->seat().held_fds()) {
      // The adapter has not checked this descriptor yet. Copies are closed in place, which may block for
      // other kinds.
      if (!guestmem::is_memory_file(each.get()) && !device::is_eventfd(each.get()))
        return "an incomplete message has a descriptor that is neither memory nor an eventfd";
      record.client.held_fds.push_back(parts_.keeping->next_id());
      add(record.client.held_fds.back(), each.get());
    }
  }
  record.doorbells = noted.doorbells();
  add(record.doorbells, seated_->adapter().doorbell_fd());
  record.client.socket = noted.socket();
  add(record.client.socket, seated_->seat().fd());
  record.client.maps = noted.maps();
  record.client.vectors = noted.vectors();
  noted.for_each_fd([&add](KeptId id, const Fd& fd) { add(id, fd.get()); });
  return {};
}

void ServedAdapter::leave() {
  if (server_ != nullptr) server_->leave();
  if (vmm_folder_ != nullptr) vmm_folder_->leave();
}

Result<void> ServedAdapter::check_record(const KeptRecord& record) const {
  if (counter_id_ != record.counter || counter_->value() != record.changes)
    return fail(ESTALE, "it has changed since its state was recorded");
  if (seated_->record()->doorbells() != record.doorbells)
    return fail(EINVAL, "its doorbell memory belongs to an adapter with another configuration");
  return {};
}

Result<void> ServedAdapter::take_back(const GivenBack& given) {
  const KeptRecord& record = given.record;
  if (!record.has_client) return {};
  if (auto valid = check_record(record); !valid) return valid;
  counter_->bump();  // the record is valid only once
  auto taken = take_back_client(given);
  if (!taken) {
    seated_->seat().drop_client(taken.error().message);
  } else {
    const bool link_is_up = seated_->adapter().link_is_up();
    port_.set_link(link_is_up);
    log::info("adapter {}: taken back{}", port_.name(),
              record.has_objects
                  ? ""
                  : ", without its guest's objects: the guest is told that its device has failed");
  }
  seated_->follow();
  follow_client();
  if (has_client()) move_home(device::LifeEvent::kTakenBack);  // the client may have left at once
  return taken;
}

Result<void> ServedAdapter::take_back_client(const GivenBack& given) {
  const KeptClient& client = given.record.client;
  const auto queue = open_queue();
  const auto fd_of = [&given, &queue](KeptId id) { return ClientFd(given.copy(id), queue); };
  std::vector<ClientFd> held;
  for (const KeptId id : client.held_fds) held.push_back(fd_of(id));
  ClientFd socket = fd_of(client.socket);
  if (!socket) return fail(EBADF, "its client's socket was not kept");
  if (auto sits = seated_->seat().take_back(std::move(socket), client.session, held); !sits) return sits;
  ClientRecord& noted = *seated_->record();
  noted.take_back_socket(client.socket);
  for (const KeptMap& map : client.maps) {
    ClientFd memory = map.fd != 0 ? fd_of(map.fd) : ClientFd();
    if (map.fd != 0 && !memory) return fail(EBADF, "some of its memory was not kept");
    if (const int error = noted.take_back(map, std::move(memory)); error != 0)
      return fail(error, fmt::format("its memory at {:#x} cannot be mapped", map.request.iova));
  }
  for (const KeptVector& vector : client.vectors) {
    ClientFd eventfd = fd_of(vector.eventfd);
    if (!eventfd || noted.take_back(vector, std::move(eventfd)) != 0)
      return fail(EBADF, "an interrupt's eventfd was not kept");
  }
  state::Reader reader(given.stream);
  skip_kept_record(reader);
  const auto objects =
      given.record.has_objects ? device::Adapter::Objects::kSaved : device::Adapter::Objects::kLost;
  return seated_->adapter().take_back(reader, objects, parts_.clock.now());
}

}  // namespace pvrdma::adapters
