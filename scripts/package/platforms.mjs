// The platforms that have a package of compiled files of their own, `@hone-rl/NAME`, and the versions of Node they serve.

/** The oldest glibc that compiled files of Linux run on. */
export const GLIBC = [2, 28];

/** The versions of Node's binary interface that better-sqlite3 is compiled for, each by a release that has it. */
export const NODES = [
  { abi: 115, version: "20.20.2" },
  { abi: 127, version: "22.23.3" },
  { abi: 137, version: "24.21.0" },
  { abi: 147, version: "26.9.0" },
];

const linux = (arch, machine) => ({
  name: `linux-${arch}`,
  os: "linux",
  cpu: arch,
  libc: "glibc",
  zig: `${machine}-linux-gnu.${GLIBC.join(".")}`,
  llama: `@node-llama-cpp/linux-${arch}`,
});

/**
 * `zig`: its name of the machine, for which it compiles on any Linux; without it a machine compiles for its like.
 * `llama`: node-llama-cpp's package of the libraries of llama.cpp that the platform's package brings along.
 */
export const PLATFORMS = [
  linux("x64", "x86_64"),
  linux("arm64", "aarch64"),
  { name: "darwin-arm64", os: "darwin", cpu: "arm64", llama: "@node-llama-cpp/mac-arm64-metal" },
  { name: "win32-x64", os: "win32", cpu: "x64", llama: "@node-llama-cpp/win-x64" },
];

export const SCOPE = "@hone-rl";

/** Platforms whose files can be compiled on this machine. */
export const buildable = () =>
  PLATFORMS.filter(({ os, cpu, zig }) => os === process.platform && (zig !== undefined || cpu === process.arch));
