#include "preload.h"

#include "shared_library.h"

namespace hone {

void preloadLibraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) loadLibrary(path);
}

std::string cudaComplaint() {
  const auto count = reinterpret_cast<int (*)(int*)>(anyFunction("cudaGetDeviceCount"));
  const auto words = reinterpret_cast<const char* (*)(int)>(anyFunction("cudaGetErrorString"));
  if (!count || !words) return "";
  int devices = 0;
  const int error = count(&devices);
  return error == 0 ? "" : words(error);
}

}  // namespace hone
