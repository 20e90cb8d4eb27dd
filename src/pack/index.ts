/**
 * Packs of hone for machines without a network: files of a size, with their sums, and the program that unpacks them there.
 *
 * ```ts
 * await pack({ for: "linux-x64-cuda13", out: "pack", partSize: "1900M", ... }, io);
 * await unpack("pack", "hone", { log });
 * ```
 */
export { type PackConfig, type Packed, pack } from "./pack.js";
export { UnpackError, unpack } from "./unpack.mjs";
