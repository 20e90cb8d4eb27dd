/**
 * CUDA's runtime libraries for the engine: cudart, cublasLt and cublas of one major version, from the learner's Python
 * environment, which has them for PyTorch, or from the system.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import type { CudaMajor } from "./cuda.js";
import { madeEnvironments } from "./environment.js";
import { type Machine, thisMachine, WSL_FOLDER } from "./nvidia.js";

/** In loading order: cublas is linked to cublasLt. */
export const runtimeNames = (major: CudaMajor) =>
  ["cudart", "cublasLt", "cublas"].map((name) => `lib${name}.so.${major}`);

export const DRIVER_LIBRARY = "libcuda.so.1";

export interface Runtime {
  readonly major: CudaMajor;
  /** Paths by name, in loading order; undefined for a library that was not found. */
  readonly libraries: readonly { readonly name: string; readonly path: string | undefined }[];
  readonly from: "the Python environment" | "the system" | undefined;
}

/** A Python environment on disk. */
export interface PythonPackages {
  /** Folders that packages are installed in. */
  readonly sites: readonly string[];
  /** Its root; an environment of conda keeps libraries in its `lib`. */
  readonly prefix: string | undefined;
  /** CUDA version of PyTorch's build; null is a build for the CPU, undefined: PyTorch is missing. */
  readonly torchCuda: string | null | undefined;
}

/** Those of hone's own environments that there are, or of another folder; runs no program. */
export function packagesIn(folder?: string): PythonPackages {
  const folders = folder === undefined ? madeEnvironments() : [folder];
  const sites = folders.flatMap((folder) => {
    const lib = join(folder, "lib");
    const versions = existsSync(lib) ? readdirSync(lib).filter((name) => /^python3\.\d+$/.test(name)) : [];
    return versions.map((name) => join(lib, name, "site-packages"));
  });
  return describePackages(sites, folders[0]);
}

export function describePackages(sites: readonly string[], prefix: string | undefined): PythonPackages {
  const torch = sites.map((site) => join(site, "torch")).find((folder) => existsSync(join(folder, "version.py")));
  if (torch === undefined) return { sites, prefix, torchCuda: undefined };
  // A CUDA build that native/learner/cpu_torch.py has changed to load without CUDA.
  if (existsSync(join(torch, "lib", "libhone_no_cuda.so"))) return { sites, prefix, torchCuda: null };
  const built = /^cuda\b[^=\n]*=\s*['"]([\d.]+)['"]/m.exec(readFileSync(join(torch, "version.py"), "utf8"))?.[1];
  return { sites, prefix, torchCuda: built ?? null };
}

/** The first complete set among these versions; else the first version's, as far as it was found. */
export function findRuntime(
  majors: readonly CudaMajor[],
  python: PythonPackages,
  machine: Machine = thisMachine,
): Runtime | undefined {
  const tries = majors.flatMap((major) => [inPython(major, python), inSystem(major, machine)]);
  return tries.find(isComplete) ?? tries.find(({ libraries }) => libraries.some(({ path }) => path)) ?? tries[0];
}

export const isComplete = (runtime: Runtime) => runtime.libraries.every(({ path }) => path !== undefined);

export const missingOf = (runtime: Runtime) =>
  runtime.libraries.filter(({ path }) => path === undefined).map(({ name }) => name);

function inPython(major: CudaMajor, { sites, prefix }: PythonPackages): Runtime {
  // NVIDIA's wheels of CUDA 13 share nvidia/cu13/lib; those of CUDA 12 have a folder each (nvidia/cublas/lib …).
  const packages = sites.map((site) => join(site, "nvidia")).filter((folder) => existsSync(folder));
  const folders = packages.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name, "lib")));
  if (prefix !== undefined) folders.push(join(prefix, "lib"));
  const libraries = runtimeNames(major).map((name) => ({ name, path: firstIn(folders, name) }));
  return { major, libraries, from: "the Python environment" };
}

function inSystem(major: CudaMajor, machine: Machine): Runtime {
  const { env, root } = machine;
  const local = join(root, "usr/local");
  const versions = existsSync(local) ? readdirSync(local).filter((name) => /^cuda(-|$)/.test(name)) : [];
  const toolkits = [...(env.CUDA_PATH ? [env.CUDA_PATH] : []), ...versions.sort().map((name) => join(local, name))];
  const folders = [
    ...(env.LD_LIBRARY_PATH ?? "").split(delimiter).filter(Boolean),
    ...toolkits.flatMap((kit) => [join(kit, "lib64"), join(kit, "lib"), join(kit, "targets/x86_64-linux/lib")]),
  ];
  const known = cachedLibraries(machine);
  const libraries = runtimeNames(major).map((name) => ({ name, path: firstIn(folders, name) ?? known.get(name) }));
  return { major, libraries, from: "the system" };
}

function firstIn(folders: readonly string[], name: string): string | undefined {
  return folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
}

/** Libraries in the dynamic loader's cache ("libcudart.so.13 (libc6,x86-64) => /usr/lib/…"). */
function cachedLibraries({ root }: Machine): ReadonlyMap<string, string> {
  // The cache is this machine's and does not apply to another root.
  const program = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].find((file) => existsSync(file));
  if (root !== "/" || program === undefined) return new Map();
  let text: string;
  try {
    text = execFileSync(program, ["-p"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    // A system without such a cache.
    return new Map();
  }
  return new Map(
    [...text.matchAll(/^\s*(\S+) \([^)]*\) => (\S+)$/gm)].map(([, name, path]) => [name ?? "", path ?? ""]),
  );
}

/** The driver's library where the loader would not search; undefined elsewhere. */
export function driverLibrary({ root }: Machine = thisMachine): string | undefined {
  return firstIn([join(root, WSL_FOLDER)], DRIVER_LIBRARY);
}

/**
 * LD_LIBRARY_PATH with the folders of these libraries in front, for child processes: this process's loader has read it
 * already.
 */
export function libraryPath(files: readonly string[], env: NodeJS.ProcessEnv): string {
  const before = (env.LD_LIBRARY_PATH ?? "").split(delimiter).filter(Boolean);
  return [...new Set([...files.map((file) => dirname(file)), ...before])].join(delimiter);
}
