// For a program that is built without the web client.
#include "web/assets.h"

namespace pvrdma::web {

std::span<const Asset> assets() {
  return {};
}

}  // namespace pvrdma::web
