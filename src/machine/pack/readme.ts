/** README.md of a pack: for the person who has nothing but its folder. */
import type { Manifest } from "./unpack.mts";

export function readmeText({
  target,
  hone,
  node,
  python,
  glibc,
  cuda,
  models,
  parts,
}: Omit<Manifest, "files">): string {
  const major = node.version.split(".")[0];
  return `${[
    `# hone ${hone} for ${target}`,
    `All that hone needs on a machine without a network, in ${parts.length} part${parts.length === 1 ? "" : "s"}. The machine must have:`,
    [
      `- Linux on x64 with glibc ${glibc} or newer`,
      `- Node ${major}`,
      `- Python ${python} with its module venv (Debian, Ubuntu: apt install python${python}-venv)`,
      ...(cuda
        ? [
            `- an NVIDIA GPU with driver ${cuda.driver} or newer`,
            `- a C compiler and Python's headers, without which learning is slower (Debian, Ubuntu: apt install gcc python${python}-dev)`,
          ]
        : []),
    ].join("\n"),
    ["```sh", "node unpack.mjs --into hone", "cd hone", "npx --no -- hone doctor --install", "```"].join("\n"),
    models.length > 0 ? `Models: ${["tiny", ...models].join(", ")}.` : "Model: tiny, which comes with hone.",
    "All parts are needed; `unpack.mjs` compares their SHA-256 with `hone-pack.json` first.",
  ].join("\n\n")}\n`;
}
