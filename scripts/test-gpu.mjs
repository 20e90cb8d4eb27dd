// `yarn test:gpu`: the tests that need a GPU (test/**/*.gpu.test.ts), on the device that gpu-device.mjs finds;
// --software takes Mesa's llvmpipe. Other arguments are handed to vitest. Ends with "N passed, N failed" and writes
// build/reports/gpu.json. Exit status 0: all passed; 1: a test failed; 3: nothing was run, and a line says why.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chooseDevice, lookAtMachine } from "./gpu-device.mjs";
import { failures, figures, leftOut, prepare, root, tool } from "./test-ground.mjs";

const NOT_RUN = 3;
const reports = { vitest: "build/reports/vitest-gpu.json", gpu: "build/reports/gpu.json" };
/** A kernel is compiled at its first use, which takes seconds on llvmpipe. Kept in this folder for the next run. */
const cache = join(root, "build", "shader-cache");

const only = process.argv.slice(2).filter((argument) => argument !== "--software");
const software = process.argv.includes("--software");

mkdirSync(join(root, "build/reports"), { recursive: true });
for (const report of Object.values(reports)) rmSync(join(root, report), { force: true });
const write = (result) => writeFileSync(join(root, reports.gpu), `${JSON.stringify(result, null, 2)}\n`);

/** Brings what a backend needs (llama.cpp's libraries, on CUDA the learner's environment); why it cannot, or "". */
function whyNotBrought(backend) {
  const settings = { gpu: backend, device: undefined, python: undefined, torchIndex: undefined };
  const program = `import("./dist/src/python-env/index.js")
    .then(({ prepareMachine }) => prepareMachine(${JSON.stringify(settings)}, (line) => console.error(line)))
    .then(() => process.exit(0), (error) => { console.log(error.message); process.exit(1); });`;
  const stdio = ["ignore", "pipe", "inherit"];
  const { status, stdout } = spawnSync(process.execPath, ["-e", program], { cwd: root, encoding: "utf8", stdio });
  return status === 0 ? "" : stdout.trim() || `the process that prepares it ended with status ${status}`;
}

/** Why hone cannot use a backend, in its own message; "" if it can. */
function whyNot(backend) {
  const program = `import("./dist/src/engine/index.js")
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
  write({ device, passed: 0, failed: 1 });
  try {
    await prepare();
  } catch (error) {
    console.error(`hone: ${error.message}`);
    console.log("0 passed, 1 failed");
    process.exit(1);
  }
  // CUDA needs more than a driver; without it hone uses Vulkan as well.
  while (device) {
    const why = whyNotBrought(device.backend) || (device.backend === "cuda" ? whyNot("cuda") : "");
    if (why === "") break;
    console.log(`not on ${device.name}: ${why}`);
    const others = device.backend === "cuda" ? chooseDevice({ ...machine, nvidia: [] }) : { notRun: why };
    ({ device, notRun } = others);
  }
}
if (!device) {
  write({ device: null, notRun, passed: 0, failed: 0 });
  console.log(`not run: the tests on a GPU: ${notRun}`);
  process.exit(NOT_RUN);
}
console.log(`GPU tests on ${device.name}: ${device.backend}, ${device.driver}`);
const result = { device, passed: 0, failed: 1, seconds: 0 };
write(result);

const began = performance.now();
const status = tool(
  "vitest/vitest.mjs",
  [
    "run",
    "--config=vitest.gpu.config.ts",
    "--reporter=verbose",
    "--reporter=json",
    `--outputFile.json=${reports.vitest}`,
    ...only,
  ],
  {
    ...process.env,
    MESA_SHADER_CACHE_DIR: cache,
    // Without LLVM's optimisation, which costs more than it saves in a test. A single malloc arena, since device memory
    // is process memory, and memory cached in an arena per thread would count as used.
    ...(device.software ? { GALLIVM_PERF: "nopt", MALLOC_ARENA_MAX: "1" } : {}),
    ...device.env,
    GPU_TEST_BACKEND: device.backend,
    GPU_TEST_NAME: device.name,
    GPU_TEST_SOFTWARE: device.software ? "1" : "",
  },
);
result.seconds = (performance.now() - began) / 1000;
if (existsSync(join(root, reports.vitest))) {
  const report = JSON.parse(readFileSync(join(root, reports.vitest), "utf8"));
  Object.assign(result, figures(report, status), { failures: failures(report) });
  if (only.length === 0) {
    for (const { line, failed } of leftOut(report)) {
      console.log(line);
      if (failed) result.failed += 1;
    }
  }
}
write(result);
console.log(`${result.passed} passed, ${result.failed} failed`);
process.exit(result.failed === 0 && result.passed > 0 ? 0 : 1);
