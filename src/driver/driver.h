// A PVRDMA driver for ordinary processes: the whole guest side of an adapter as a library.
//
// A process opens an adapter that pvrdmad serves on a vfio-user socket, and uses it with the objects of
// verbs: protection domains, memory regions, completion queues, queue pairs. Data moves without the kernel:
// posting writes to a ring in shared memory and to a doorbell, and polling reads a ring.
//
//   using namespace pvrdma::driver;
//
//   auto bus = VfioUserBus::connect("/run/pvrdma/vm-01.sock");
//   auto device = Device::open(std::move(*bus));                    // probe, activate
//   (*device)->bind_gid(0, gid);                                    // ::ffff:192.168.11.51
//   auto pd = ProtectionDomain::create((*device)->kernel());
//   auto cq = CompletionQueue::create((*device)->kernel(), 256);
//   auto qp = QueuePair::create(**pd, {.send_cq = cq->get(), .recv_cq = cq->get()});
//   auto buffer = (*device)->ram().allocate(65536);
//   auto region = MemoryRegion::of_buffer(**pd, **buffer, abi::kAccessLocalWrite | abi::kAccessRemoteWrite);
//
//   (*qp)->to_init({.access = abi::kAccessRemoteWrite});            // then exchange qpn, address and rkey
//   with the peer
//   (*qp)->to_rtr({.dest_qpn = peer.qpn, .route = {.dgid = peer.gid}});
//   (*qp)->to_rts(RtsAttributes{});
//
//   const Sge sge = (*region)->sge(0, 65536);
//   (*qp)->post_send(wr::write(1, std::span(&sge, 1), {peer.addr, peer.rkey}));
//   WorkCompletion done;
//   while ((*cq)->poll(std::span(&done, 1)) == 0) {}
//
// Every create and modify call returns a Result; objects are destroyed in the reverse order of creation, the
// Device last. tests/device/driver_example_test.cc builds and runs this example.
//
// The library behaves like Linux 6.12's vmw_pvrdma and rdma-core's provider, including ring arithmetic, page
// directories of scattered pages, attribute masks and the order of operations (docs/device.md). Objects of
// Device::kernel() behave like the kernel's. Objects of Context::create_user() behave like a user process's:
// they have their own doorbell page, but no fast registration and no DMA keys.
//
// Thread: a Device and everything made from it belong to one thread at a time; different Devices are
// independent.
#pragma once

#include "driver/bus.h"                   // IWYU pragma: export
#include "driver/completion_queue.h"      // IWYU pragma: export
#include "driver/context.h"               // IWYU pragma: export
#include "driver/device.h"                // IWYU pragma: export
#include "driver/guest_ram.h"             // IWYU pragma: export
#include "driver/memory_region.h"         // IWYU pragma: export
#include "driver/posting.h"               // IWYU pragma: export
#include "driver/protection_domain.h"     // IWYU pragma: export
#include "driver/queue_pair.h"            // IWYU pragma: export
#include "driver/shared_receive_queue.h"  // IWYU pragma: export
#include "driver/vfio_user_bus.h"         // IWYU pragma: export
#include "driver/work_request.h"          // IWYU pragma: export
