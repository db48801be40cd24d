// The web client's files, embedded in the program: the sandboxed daemon reads no files. tools/web-assets
// makes them from ui/ and third_party/web/ when the program is built.
//
// Thread: values.
#pragma once

#include <span>
#include <string_view>

namespace pvrdma::web {

// The page. The names of all other files contain a hash of their bytes, so such a name always means the same
// bytes.
inline constexpr std::string_view kIndex = "index.html";

struct Asset {
  std::string_view name;
  std::string_view type;
  std::string_view bytes;
  std::string_view gzip;  // `bytes`, packed
};

// Empty: the program was built without the web client (PVRDMA_WEB=OFF). All of it lives as long as the
// program.
std::span<const Asset> assets();

}  // namespace pvrdma::web
