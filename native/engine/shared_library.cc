#include "shared_library.h"

#include <cstring>
#include <stdexcept>
#include <vector>

#ifdef _WIN32
#define NOMINMAX
#include <windows.h>
// After windows.h, whose types it uses.
#include <psapi.h>
#else
#include <dlfcn.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <link.h>
#endif
#endif

namespace hone {
namespace {

const char* nameOf(const char* path) {
  const char* name = path;
  for (const char* at = path; *at; at++) {
    if (*at == '/' || *at == '\\') name = at + 1;
  }
  return name;
}

bool beginsWith(const char* text, const char* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

#ifdef _WIN32
std::vector<HMODULE> modules() {
  std::vector<HMODULE> found(1024);
  DWORD bytes = 0;
  const DWORD room = static_cast<DWORD>(found.size() * sizeof(HMODULE));
  if (!K32EnumProcessModules(GetCurrentProcess(), found.data(), room, &bytes)) return {};
  const size_t count = bytes / sizeof(HMODULE);
  if (count < found.size()) found.resize(count);
  return found;
}

std::string pathOf(HMODULE module) {
  char path[MAX_PATH];
  const DWORD length = GetModuleFileNameA(module, path, MAX_PATH);
  return std::string(path, length);
}

[[noreturn]] void throwLastError(const std::string& what) {
  throw std::runtime_error(what + ": Windows' error " + std::to_string(GetLastError()));
}
#else
[[noreturn]] void throwLastError() {
  const char* reason = dlerror();
  throw std::runtime_error(reason ? reason : "the loader gives no reason");
}
#endif

}  // namespace

#ifdef _WIN32

std::set<std::string> loadedLibLlamas() {
  std::set<std::string> found;
  for (HMODULE module : modules()) {
    const std::string path = pathOf(module);
    if (beginsWith(nameOf(path.c_str()), "llama.")) found.insert(path);
  }
  return found;
}

void* keepLibrary(const std::string& path) {
  HMODULE module = nullptr;
  if (!GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_PIN, path.c_str(), &module)) throwLastError(path);
  return module;
}

void keepThisLibrary() {
  HMODULE module = nullptr;
  const DWORD flags = GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS;
  if (!GetModuleHandleExA(flags, reinterpret_cast<LPCSTR>(&keepThisLibrary), &module)) throwLastError("the addon");
}

void* functionOf(void* library, const char* name) {
  // A module's functions are its own alone here: ggml's libraries are asked too.
  if (FARPROC found = GetProcAddress(static_cast<HMODULE>(library), name)) return reinterpret_cast<void*>(found);
  for (HMODULE module : modules()) {
    if (!beginsWith(nameOf(pathOf(module).c_str()), "ggml")) continue;
    if (FARPROC found = GetProcAddress(module, name)) return reinterpret_cast<void*>(found);
  }
  return nullptr;
}

void* anyFunction(const char* name) {
  for (HMODULE module : modules()) {
    if (FARPROC found = GetProcAddress(module, name)) return reinterpret_cast<void*>(found);
  }
  return nullptr;
}

void loadLibrary(const std::string& path) {
  if (!LoadLibraryExA(path.c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH)) throwLastError(path);
}

#else

std::set<std::string> loadedLibLlamas() {
  std::set<std::string> found;
  const auto look = [&](const char* path) {
    if (beginsWith(nameOf(path), "libllama.")) found.insert(path);
  };
#ifdef __APPLE__
  for (uint32_t i = 0; i < _dyld_image_count(); i++) look(_dyld_get_image_name(i));
#else
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        (*static_cast<decltype(look)*>(data))(info->dlpi_name);
        return 0;
      },
      const_cast<void*>(static_cast<const void*>(&look)));
#endif
  return found;
}

void* keepLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  if (!library) throwLastError();
  return library;
}

void keepThisLibrary() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&keepThisLibrary), &self) == 0) throw std::runtime_error("it is in no library");
  keepLibrary(self.dli_fname);
}

void* functionOf(void* library, const char* name) { return dlsym(library, name); }

void* anyFunction(const char* name) { return dlsym(RTLD_DEFAULT, name); }

void loadLibrary(const std::string& path) {
  if (!dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE)) throwLastError();
}

#endif

}  // namespace hone
