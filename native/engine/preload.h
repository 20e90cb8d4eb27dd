// Shared libraries that llama.cpp's CUDA backend needs, loaded before it by their paths.
#pragma once

#include <string>
#include <vector>

namespace hone {

/**
 * Loads libraries for the life of the process, in this order, their symbols for all. What is loaded later and names one
 * of them gets it, wherever it lies. Throws std::runtime_error with the loader's own words.
 */
void preloadLibraries(const std::vector<std::string>& paths);

/** Why CUDA's runtime, where one is loaded, finds no device, in its own words; "" when it finds one or is not there. */
std::string cudaComplaint();

}  // namespace hone
