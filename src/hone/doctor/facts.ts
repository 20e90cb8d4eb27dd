/** Facts about a Python interpreter: its packages, and the devices its PyTorch can compute on. */
import { z } from "zod";
import { lastLine, run } from "../../core/util/run.js";
import { pinned } from "../../machine/python/declared.js";

/** A program that prints these facts as one JSON line. */
const SCRIPT = `
import importlib.metadata as m, json, os, platform, shutil, sys, sysconfig
names = sys.argv[1:]
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return None
facts = {"python": platform.python_version(), "executable": sys.executable, "packages": {n: version(n) for n in names}}
facts["compiler"] = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
facts["headers"] = os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))
try:
    import warnings; warnings.simplefilter("ignore")
    import torch
    sees = torch.cuda.is_available()
    facts["torch"] = {"version": torch.__version__, "cuda": torch.version.cuda, "seesGpu": sees,
        "gpu": torch.cuda.get_device_name(0) if sees else None}
except Exception as error:
    facts["broken"] = (type(error).__name__ + ": " + str(error)).splitlines()[0][:300]
print("\\n" + json.dumps(facts))
`;

const factsSchema = z.object({
  python: z.string(),
  executable: z.string(),
  packages: z.record(z.string(), z.string().nullable()),
  /** The C compiler that Triton takes; null where there is none. */
  compiler: z.string().nullable(),
  /** Whether this Python's headers (Python.h) are there. */
  headers: z.boolean(),
  torch: z
    .object({
      version: z.string(),
      /** CUDA version of the build; null for a CPU build. */
      cuda: z.string().nullable(),
      seesGpu: z.boolean(),
      gpu: z.string().nullable(),
    })
    .optional(),
  /** Why PyTorch cannot be imported. */
  broken: z.string().optional(),
});

export type PythonFacts = z.output<typeof factsSchema>;

/** Optional packages. */
const OPTIONAL = ["unsloth", "unsloth_zoo"];

/** @throws when the program cannot be run, or its answer cannot be read */
export async function factsOfPython(python: string): Promise<PythonFacts> {
  const { code, stdout, stderr } = await run(python, ["-c", SCRIPT, ...pinned().keys(), ...OPTIONAL]);
  const line = lastLine(stdout);
  if (code !== 0 || line === "") throw new Error(lastLine(stderr) || `it ended with exit code ${code}`);
  return factsSchema.parse(JSON.parse(line));
}
