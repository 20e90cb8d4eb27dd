{
  "targets": [
    {
      "target_name": "hone_engine",
      "sources": ["native/engine/addon_unit.cc", "native/engine/own_unit.cc", "native/engine/scheduler_unit.cc"],
      "include_dirs": [
        "<!(node -p \"require('node-addon-api').include_dir\")",
        "build/llama/include",
        "build/llama/ggml/include"
      ],
      "defines": [
        "NAPI_VERSION=8",
        "NAPI_CPP_EXCEPTIONS",
        # A promise that is settled while its worker is being terminated must not abort the process.
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS",
        "HONE_LLAMA_VERSION=\"<!(node scripts/build-addon.mjs --print-llama-version)\""
      ],
      "cflags_cc!": ["-fno-exceptions", "-fno-rtti", "-std=gnu++17", "-std=gnu++20"],
      "cflags_cc": ["-std=c++17", "-fexceptions", "-frtti", "-O3", "-Wall", "-Wextra", "-Wno-cast-function-type"],
      "msvs_settings": {
        "VCCLCompilerTool": { "ExceptionHandling": 1, "RuntimeTypeInfo": "true", "AdditionalOptions": ["/std:c++17"] }
      },
      "xcode_settings": {
        "GCC_ENABLE_CPP_EXCEPTIONS": "YES",
        "GCC_ENABLE_CPP_RTTI": "YES",
        "CLANG_CXX_LANGUAGE_STANDARD": "c++17",
        "GCC_OPTIMIZATION_LEVEL": "3",
        "MACOSX_DEPLOYMENT_TARGET": "13.0"
      }
    }
  ]
}
