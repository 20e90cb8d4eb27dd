// Shared libraries of this process: those that are loaded, their functions, and how one stays. For POSIX systems and Windows.
#pragma once

#include <set>
#include <string>

namespace hone {

/** Paths of the libraries in this process that are llama.cpp itself ("libllama.so.1", not "libllama-common"). */
std::set<std::string> loadedLibLlamas();

/**
 * A handle of a library that is loaded, which stays for the life of the process: Node unmaps libraries loaded by a worker
 * alone when that worker ends. Throws std::runtime_error with the loader's message.
 */
void* keepLibrary(const std::string& path);

/** As keepLibrary, of the library that this code is in. */
void keepThisLibrary();

/** A function of a library, or of those that it depends on (libggml, libggml-base); null where they have none. */
void* functionOf(void* library, const char* name);

/** A function of any library of the process that has global symbols; null where none has it. */
void* anyFunction(const char* name);

/** Loads a library for the life of the process, with global symbols. Throws std::runtime_error with the loader's message. */
void loadLibrary(const std::string& path);

}  // namespace hone
