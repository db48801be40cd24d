// CmFile: one rdma_cm file that a program has open: its ids, and the events that wait for it.
//
// Commands are those of the kernel's ABI, by write(). The program's descriptor is readable while events wait;
// it takes them one by one by GET_EVENT. An id that a listener got belongs to the file from the moment that
// the program was told of it.
//
// Thread: one at a time; blocks until the device has answered.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

#include "standin/cm_command.h"
#include "standin/cm_service.h"
#include "standin/readiness.h"
#include "standin/uverbs_command.h"

namespace pvrdma::standin {

class CmFile;
using CmFiles = std::vector<std::unique_ptr<CmFile>>;  // of one process, by number; null: free

// The process that has the file open. Borrowed; outlives the file.
struct CmOwner {
  cm::Program program;
  const CmFiles& files;
  const std::unordered_set<std::uint32_t>& qpns;
};

class CmFile {
 public:
  // `service` is borrowed and outlives the file.
  static Result<std::unique_ptr<CmFile>> create(CmService& service, const CmOwner& owner);
  // Ends all of its connections.
  ~CmFile();
  CmFile(const CmFile&) = delete;
  CmFile& operator=(const CmFile&) = delete;

  // Executes a command. EAGAIN: there is no event.
  Result<> execute(const CmCommand& command, UverbsAnswer& answer);

  // An event of one of its ids.
  void put(cm::Event event);
  // The adapter is gone: wakes the program, which then gets EIO.
  void wake() { readiness_.set(true); }

  int program_end() const { return readiness_.program_end(); }

 private:
  struct Id {
    std::uint64_t uid = 0;  // what the program calls it; 0: it has not been named yet
    std::uint32_t events_reported = 0;
    bool has_route = false;
    std::uint32_t scope_id = 0;  // of link-local addresses, as the program named it: the adapter has one link
  };
  // What GET_EVENT gives, and the id that counts it.
  struct Waiting {
    cm::Handle counted = 0;
    cm::Handle made = 0;  // by a connection request; else 0
    rdma_ucm_event_resp answer{};
  };

  CmFile(CmService& service, const CmOwner& owner, Readiness readiness)
      : service_(service), owner_(owner), readiness_(std::move(readiness)) {}

  // --- cm_commands.cc ---
  Result<> create_id(const CmCommand& command, UverbsAnswer& answer);
  Result<> destroy_id(const CmCommand& command, UverbsAnswer& answer);
  Result<> bind_ip(const CmCommand& command);
  Result<> resolve_ip(const CmCommand& command);
  Result<> resolve_route(const CmCommand& command);
  Result<> take_route(cm::Handle handle);
  Result<> query_route(const CmCommand& command, UverbsAnswer& answer);
  Result<> connect(const CmCommand& command);
  Result<> listen(const CmCommand& command);
  Result<> accept(const CmCommand& command);
  Result<> reject(const CmCommand& command);
  Result<> disconnect(const CmCommand& command);
  Result<> init_qp_attr(const CmCommand& command, UverbsAnswer& answer);
  Result<> check_qp(const rdma_ucm_conn_param& param) const;
  Result<> set_option(const CmCommand& command);
  Result<> notify(const CmCommand& command);
  Result<> migrate_id(const CmCommand& command, UverbsAnswer& answer);

  Result<> dispatch(const CmCommand& command, UverbsAnswer& answer);
  Result<> get_event(const CmCommand& command, UverbsAnswer& answer);
  Result<Id*> id_of(cm::Handle handle);
  static Result<> take_scope(Id& id, const cm::Endpoint& endpoint, const sockaddr_in6& address);
  void put_simple(cm::Handle handle, std::uint32_t event);
  ib_uverbs_ah_attr address_handle(const cm::Gid& local, const cm::Gid& remote) const;
  rdma_ucm_ud_param ud_param_of(const cm::Event& event) const;
  void queue(Waiting waiting);
  void drop_events_of(cm::Handle handle);
  cm::Manager& manager() const { return service_.manager(); }

  CmService& service_;
  const CmOwner owner_;
  Readiness readiness_;
  std::map<cm::Handle, Id> ids_;
  std::deque<Waiting> events_;
};

}  // namespace pvrdma::standin
