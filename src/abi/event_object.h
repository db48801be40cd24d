// What an asynchronous event is about. Thread: values.
#pragma once

#include <cstdint>

#include "abi/ring.h"

namespace pvrdma::abi {

enum class EventObject : std::uint8_t {
  kCq,
  kQp,
  kSrq,
  kNone,  // the port or the device
};

constexpr EventObject object_of(EventType type) {
  switch (type) {
    case EventType::kCqErr:
      return EventObject::kCq;
    case EventType::kQpFatal:
    case EventType::kQpReqErr:
    case EventType::kQpAccessErr:
    case EventType::kCommEst:
    case EventType::kSqDrained:
    case EventType::kPathMig:
    case EventType::kPathMigErr:
    case EventType::kQpLastWqeReached:
      return EventObject::kQp;
    case EventType::kSrqErr:
    case EventType::kSrqLimitReached:
      return EventObject::kSrq;
    case EventType::kDeviceFatal:
    case EventType::kPortActive:
    case EventType::kPortErr:
    case EventType::kLidChange:
    case EventType::kPkeyChange:
    case EventType::kSmChange:
    case EventType::kClientReregister:
    case EventType::kGidChange:
      return EventObject::kNone;
  }
  return EventObject::kNone;
}

}  // namespace pvrdma::abi
