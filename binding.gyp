{
  "targets": [
    {
      "target_name": "hone_engine",
      "sources": [
        "native/engine/addon.cc",
        "native/engine/admission.cc",
        "native/engine/commands.cc",
        "native/engine/constraint.cc",
        "native/engine/device_sampler.cc",
        "native/engine/engine_object.cc",
        "native/engine/failure.cc",
        "native/engine/grammar.cc",
        "native/engine/joint.cc",
        "native/engine/js.cc",
        "native/engine/lanes.cc",
        "native/engine/libllama.cc",
        "native/engine/llama_decoder.cc",
        "native/engine/llama_drawing.cc",
        "native/engine/model.cc",
        "native/engine/passes.cc",
        "native/engine/planner.cc",
        "native/engine/pool.cc",
        "native/engine/port.cc",
        "native/engine/preload.cc",
        "native/engine/quantize.cc",
        "native/engine/registry.cc",
        "native/engine/report.cc",
        "native/engine/row_sampler.cc",
        "native/engine/sampling.cc",
        "native/engine/sampling_graph.cc",
        "native/engine/sampling_trial.cc",
        "native/engine/scheduler.cc",
        "native/engine/slots.cc",
        "native/engine/shape.cc",
        "native/engine/shared_library.cc",
        "native/engine/step.cc",
        "native/engine/vector_math.cc",
        "native/engine/warm_up.cc",
        "native/engine/weights.cc"
      ],
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
