// The blocks of a pcapng file (IETF draft-ietf-opsawg-pcapng) that a capture uses, in this machine's byte
// order. Pure functions. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "verbs/observer.h"

namespace pvrdma::capture {

// Section header: what the file contains and which application wrote it.
void add_section(std::string& out, std::string_view comment, std::string_view application);

// An Ethernet interface with timestamps in nanoseconds. The first interface has number 0.
void add_interface(std::string& out, std::string_view name, std::string_view description,
                   std::uint32_t snap_bytes);

// A frame of `bytes` bytes, of which `kept` was kept. The time counts from 1970.
void add_frame(std::string& out, std::uint32_t interface_id, std::uint64_t time_ns,
               verbs::Direction direction, std::span<const std::byte> kept, std::size_t bytes);

// How many frames an interface has received so far, and how many more were dropped.
void add_statistics(std::string& out, std::uint32_t interface_id, std::uint64_t time_ns,
                    std::uint64_t received, std::uint64_t dropped);

}  // namespace pvrdma::capture
