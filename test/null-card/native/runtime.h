// What the files of the runtime's stand-in share.
#pragma once
#include <driver_types.h>

// The error as the runtime gives it, remembered for cudaGetLastError.
cudaError_t answer(int error);
