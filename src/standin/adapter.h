// Adapter: the adapter that a stand-in serves to processes, and which uverbs file owns which object of it.
//
// The stand-in is the adapter's vfio-user client. Doorbell pages are mapped by the programs; the stand-in's
// own doorbells are messages, so that the device has taken each when the call returns.
//
// Thread: one at a time; blocks until the device has answered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi/endian.h"
#include "abi/event_object.h"
#include "base/fd.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "driver/device.h"
#include "driver/vfio_user_bus.h"
#include "standin/neighbors.h"
#include "vfio_user/client.h"

namespace pvrdma::standin {

class OpenFile;

inline constexpr std::uint8_t kPort = 1;  // an adapter's only one

class Adapter {
 public:
  // Connects to the adapter's socket, starts the device and gives the port its GIDs: the link-local one of
  // its MAC, then those of `addresses`. `gateway`: see Neighbors. Errors: there is no daemon, the adapter has
  // a client, the device refuses an address.
  static Result<std::unique_ptr<Adapter>> open(const std::string& socket,
                                               const std::vector<IpAddress>& addresses,
                                               std::optional<abi::Mac> gateway);

  driver::Device& device() { return *device_; }
  Neighbors& neighbors() { return neighbors_; }
  const std::vector<abi::Gid>& gids() const { return gids_; }

  // Where the doorbell page `uar` lies in doorbell_file(). Nothing: the daemon does not let it be mapped.
  std::optional<std::uint64_t> doorbell_offset(std::uint32_t uar) const;
  int doorbell_file() const { return doorbells_.fd.get(); }
  // The first context's page is as those of all programs. Trapped doorbells leave an area behind them.
  bool is_mapped() const { return doorbell_offset(1).has_value(); }

  // Writes a word of a doorbell page; the device has taken it when the call returns.
  Result<> ring(std::uint32_t uar, abi::UarWord word, std::uint32_t value);

  // Null `file`: the object is destroyed.
  void set_owner(abi::EventObject object, std::uint32_t handle, OpenFile* file);
  OpenFile* owner(abi::EventObject object, std::uint32_t handle) const;

  // The files that hear of events about the port and the device.
  void add_file(OpenFile& file) { files_.insert(&file); }
  void remove_file(OpenFile& file) { files_.erase(&file); }

  // Gives the device's unread notifications and asynchronous events to the files.
  void dispatch_events();
  // True once after dispatch_events() has found a notification of a CQ that is no file's: the stand-in's own.
  bool take_own_notification() { return std::exchange(own_was_notified_, false); }

  // The errno value for a program. An error of the connection to the daemon, or of an adapter that the
  // daemon has stopped, makes the adapter lost for ever, and gives EIO.
  int errno_of(const Error& error);
  bool is_lost() const { return lost_; }
  // The daemon or the adapter is gone: tells every file, and from now on every command fails with EIO.
  void set_lost();
  int socket_fd() const { return bus_->socket_fd(); }  // readable, hung up: the daemon is gone

 private:
  Adapter(std::unique_ptr<driver::Device> device, driver::VfioUserBus* bus, vfio_user::ClientRegion doorbells,
          std::optional<abi::Mac> gateway)
      : device_(std::move(device)),
        bus_(bus),
        doorbells_(std::move(doorbells)),
        neighbors_(std::make_unique<RtnetlinkNetwork>(), gateway) {}
  Result<> bind(const std::vector<IpAddress>& addresses);

  std::unique_ptr<driver::Device> device_;
  driver::VfioUserBus* bus_;  // owned by device_
  vfio_user::ClientRegion doorbells_;
  std::vector<abi::Gid> gids_;
  Neighbors neighbors_;
  std::unordered_map<std::uint64_t, OpenFile*> owners_;  // by object and handle
  std::set<OpenFile*> files_;                            // borrowed
  bool own_was_notified_ = false;
  bool lost_ = false;
};

}  // namespace pvrdma::standin
