/** The oldest glibc that compiled files run on. */
import { readFileSync } from "node:fs";
import { basename } from "node:path";

/** Libraries of this size and more are CUDA's kernels; those beside them are linked by the same linker. */
const LARGE = 64 << 20;

const newest = (minors: Iterable<string | undefined>) => Math.max(0, ...[...minors].map((minor) => Number(minor ?? 0)));

/** The second number of glibc's versions, all of which are 2: a library names the versions of what it calls. */
function minorOfLibrary(file: string): number {
  return newest([...readFileSync(file, "latin1").matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => minor));
}

/** "torch-…-manylinux_2_28_x86_64.whl" needs 2.28; of several tags the oldest holds. */
function minorOfWheel(file: string): number {
  const tags = [...basename(file).matchAll(/manylinux_2_(\d+)_|manylinux(2014|2010|1)_/g)];
  const older = { "2014": 17, "2010": 12, "1": 5 } as const;
  const minors = tags.map(([, minor, name]) => (minor ? Number(minor) : older[name as keyof typeof older]));
  return minors.length === 0 ? 0 : Math.min(...minors);
}

/** @param files of a pack, with their sizes; those that are not compiled are passed over */
export function neededGlibc(files: readonly { readonly file: string; readonly bytes: number }[]): string {
  const minors = files.map(({ file, bytes }) => {
    if (file.endsWith(".whl")) return minorOfWheel(file);
    return /\.(node|so)(\.\d+)*$/.test(file) && bytes < LARGE ? minorOfLibrary(file) : 0;
  });
  return `2.${Math.max(0, ...minors)}`;
}
