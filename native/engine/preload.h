// Shared libraries that llama.cpp's CUDA backend needs, loaded before it by their paths.
#pragma once

#include <string>
#include <vector>

namespace hone {

/**
 * Loads libraries for the life of the process, in this order, with global symbols. Libraries loaded later find them by
 * name, wherever they are. Throws std::runtime_error with the loader's own message.
 */
void preloadLibraries(const std::vector<std::string>& paths);

/** CUDA's own message on why its runtime finds no device; "" when it finds one or is not loaded. */
std::string cudaComplaint();

}  // namespace hone
