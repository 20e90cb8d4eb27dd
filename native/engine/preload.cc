#include "preload.h"

#include <dlfcn.h>

#include <stdexcept>

namespace hone {

void preloadLibraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (!dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE)) throw std::runtime_error(dlerror());
  }
}

std::string cudaComplaint() {
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "cudaGetDeviceCount"));
  const auto words = reinterpret_cast<const char* (*)(int)>(dlsym(RTLD_DEFAULT, "cudaGetErrorString"));
  if (!count || !words) return "";
  int devices = 0;
  const int error = count(&devices);
  return error == 0 ? "" : words(error);
}

}  // namespace hone
