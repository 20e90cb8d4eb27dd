/** Where CUDA's runtime libraries are looked for. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findRuntime, isComplete, libraryPath, missingOf, packagesIn } from "../../src/engine/device/runtime.js";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "hone-runtime-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function files(...paths: string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), "");
  }
}
const venv = () => join(root, "venv");
const site = "venv/lib/python3.12/site-packages";
const machine = (env: NodeJS.ProcessEnv = {}) => ({ env, root });
const paths = (majors: (12 | 13)[], env: NodeJS.ProcessEnv = {}) => {
  const found = findRuntime(majors, packagesIn(venv()), machine(env));
  return {
    from: found?.from,
    major: found?.major,
    at: found?.libraries.map(({ path }) => path?.slice(root.length + 1)),
  };
};

describe("CUDA's runtime libraries", () => {
  it("are taken from the environment, where NVIDIA's wheels put them", () => {
    files(...["cudart", "cublas", "cublasLt"].map((name) => `${site}/nvidia/cu13/lib/lib${name}.so.13`));
    expect(paths([13])).toEqual({
      from: "the Python environment",
      major: 13,
      at: ["cudart", "cublasLt", "cublas"].map((name) => `${site}/nvidia/cu13/lib/lib${name}.so.13`),
    });
    expect(paths([12]).at).toEqual([undefined, undefined, undefined]);
    files(`${site}/nvidia/cuda_runtime/lib/libcudart.so.12`);
    files(`${site}/nvidia/cublas/lib/libcublas.so.12`, `${site}/nvidia/cublas/lib/libcublasLt.so.12`);
    expect(paths([12])).toMatchObject({
      major: 12,
      at: [expect.stringContaining("cuda_runtime/lib/libcudart.so.12"), expect.anything(), expect.anything()],
    });
  });

  it("else from the system: CUDA_PATH, LD_LIBRARY_PATH, /usr/local/cuda*", () => {
    const all = (folder: string, major: number) =>
      files(...["cudart", "cublas", "cublasLt"].map((name) => `${folder}/lib${name}.so.${major}`));
    all("usr/local/cuda-12.9/targets/x86_64-linux/lib", 12);
    expect(paths([13, 12])).toMatchObject({ from: "the system", major: 12 });
    all("usr/local/cuda-13.1/lib64", 13);
    expect(paths([13, 12])).toMatchObject({
      major: 13,
      at: [expect.stringContaining("cuda-13.1/lib64"), expect.anything(), expect.anything()],
    });
    all("kit/lib", 13);
    expect(paths([13], { CUDA_PATH: join(root, "kit") }).at?.[0]).toBe("kit/lib/libcudart.so.13");
    all("own", 13);
    expect(paths([13], { LD_LIBRARY_PATH: join(root, "own") }).at?.[0]).toBe("own/libcudart.so.13");
  });

  it("that are not all there are named", () => {
    files(`${site}/nvidia/cu13/lib/libcudart.so.13`);
    const found = findRuntime([13, 12], packagesIn(venv()), machine());
    if (!found) throw new Error("nothing was tried");
    expect(isComplete(found)).toBe(false);
    expect([found.major, missingOf(found)]).toEqual([13, ["libcublasLt.so.13", "libcublas.so.13"]]);
  });

  it("are put in front of LD_LIBRARY_PATH, each folder once", () => {
    expect(libraryPath(["/a/x.so", "/a/y.so", "/b/z.so"], { LD_LIBRARY_PATH: "/c:/a" })).toBe("/a:/b:/c");
    expect(libraryPath(["/a/x.so"], {})).toBe("/a");
  });
});

describe("an environment's PyTorch", () => {
  const says = (text: string) => {
    files(`${site}/torch/version.py`);
    writeFileSync(join(root, site, "torch/version.py"), text);
    return packagesIn(venv()).torchCuda;
  };

  it("says which CUDA it was built for", () => {
    expect(packagesIn(venv()).torchCuda).toBeUndefined();
    expect(says("__version__ = '2.13.0+cu126'\ndebug = False\ncuda: Optional[str] = '12.6'\n")).toBe("12.6");
    expect(says("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = '7.2'\n")).toBeNull();
  });

  it("is one for the CPU when it was made to load without CUDA", () => {
    says("cuda = '13.0'\n");
    files(`${site}/torch/lib/libhone_no_cuda.so`);
    expect(packagesIn(venv()).torchCuda).toBeNull();
  });
});
