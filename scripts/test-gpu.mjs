// `yarn test:gpu`: the tests that need a GPU (test/**/*.gpu.test.ts), on the device that gpu-device.mjs finds;
// --software takes Mesa's llvmpipe, `--full` adds slower ones. Other arguments are handed to vitest. part.mjs says how it ends.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { chooseDevice, lookAtMachine } from "./gpu-device.mjs";
import { Part } from "./part.mjs";
import { root, takeFlag } from "./test-ground.mjs";

const part = new Part("gpu", "a GPU");
const software = takeFlag(part.only, "--software");
const full = takeFlag(part.only, "--full");

/** Brings what a backend needs (llama.cpp's libraries, on CUDA the learner's environment); why it cannot, or "". */
function whyNotBrought(backend) {
  const settings = { gpu: backend, device: undefined, python: undefined, torchIndex: undefined };
  const program = `import("./dist/src/machine/python/machine.js")
    .then(({ prepareMachine }) => prepareMachine(${JSON.stringify(settings)}, (line) => console.error(line)))
    .then(() => process.exit(0), (error) => { console.log(error.message); process.exit(1); });`;
  const stdio = ["ignore", "pipe", "inherit"];
  const { status, stdout } = spawnSync(process.execPath, ["-e", program], { cwd: root, encoding: "utf8", stdio });
  return status === 0 ? "" : stdout.trim() || `the process that prepares it ended with status ${status}`;
}

/** Why hone cannot use a backend, in its own message; "" if it can. */
function whyNot(backend) {
  const program = `import("./dist/src/engine/load.js")
    .then(({ gpuMemory }) => gpuMemory(${JSON.stringify(backend)}))
    .then(() => process.exit(0), (error) => { console.log(error.message); process.exit(1); });`;
  const { status, stdout } = spawnSync(process.execPath, ["-e", program], { cwd: root, encoding: "utf8" });
  return status === 0 ? "" : stdout.trim() || `the process that loads it ended with status ${status}`;
}

// Read by llvmpipe alone, and part of its name: kernels for vectors of 4 compile faster (861 s of tests, then 685).
process.env.LP_NATIVE_VECTOR_WIDTH = "128";
const machine = { ...lookAtMachine(), software };
let { device, notRun } = chooseDevice(machine);
if (device) {
  await part.prepare({ device });
  // CUDA needs more than a driver; without it hone uses Vulkan as well.
  while (device) {
    const why = whyNotBrought(device.backend) || (device.backend === "cuda" ? whyNot("cuda") : "");
    if (why === "") break;
    console.log(`not on ${device.name}: ${why}`);
    const others = device.backend === "cuda" ? chooseDevice({ ...machine, nvidia: [] }) : { notRun: why };
    ({ device, notRun } = others);
  }
}
if (!device) part.notRun(notRun, { device: null });
console.log(`GPU tests on ${device.name}: ${device.backend}, ${device.driver}`);
const { cacheHome } = await import("../dist/src/core/util/paths.js");
await part.run(
  { device },
  {
    // A kernel is compiled at its first use, which takes seconds on llvmpipe. Kept for the next run, also of another checkout: Mesa
    // knows by its own version and the kernel's code which is which.
    MESA_SHADER_CACHE_DIR: join(cacheHome(), "hone", "shaders"),
    // Without LLVM's optimisation, which costs more than it saves in a test. A single malloc arena, since device memory
    // is process memory, and memory cached in an arena per thread would count as used.
    ...(device.software ? { GALLIVM_PERF: "nopt", MALLOC_ARENA_MAX: "1" } : {}),
    ...device.env,
    GPU_TEST_BACKEND: device.backend,
    GPU_TEST_NAME: device.name,
    GPU_TEST_SOFTWARE: device.software ? "1" : "",
    TEST_FULL: full ? "1" : "",
  },
);
