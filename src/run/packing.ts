/** Trajectories as the store keeps them: tokens as packed arrays, everything else as compressed JSON. */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { TokenRecord, Trajectory } from "../rollout/index.js";

export interface PackedTrajectory {
  /** Deflated JSON of everything except the tokens. */
  readonly trajectory: Buffer;
  /** Deflated; null for players that have no tokens. */
  readonly tokens: Buffer | null;
}

/** The fastest compression level: rollouts are saved while others are being played. */
const LEVEL = { level: 1 };

/** Little-endian: I32 ids [n], F32 logprobs [n], U8 sampled [n]. */
function packTokens({ ids, logprobs, sampled }: TokenRecord): Buffer {
  const n = ids.length;
  const bytes = new ArrayBuffer(9 * n);
  new Int32Array(bytes, 0, n).set(ids);
  new Float32Array(bytes, 4 * n, n).set(logprobs);
  new Uint8Array(bytes, 8 * n, n).set(sampled);
  return deflateRawSync(new Uint8Array(bytes), LEVEL);
}

function unpackTokens(packed: Buffer): TokenRecord {
  // A copy: typed arrays need an aligned start.
  const bytes = new Uint8Array(inflateRawSync(packed)).buffer;
  const n = bytes.byteLength / 9;
  return {
    ids: [...new Int32Array(bytes, 0, n)],
    sampled: [...new Uint8Array(bytes, 8 * n, n)],
    logprobs: [...new Float32Array(bytes, 4 * n, n)],
  };
}

export function pack({ tokens, ...rest }: Trajectory): PackedTrajectory {
  return {
    trajectory: deflateRawSync(JSON.stringify(rest), LEVEL),
    tokens: tokens ? packTokens(tokens) : null,
  };
}

export function unpack({ trajectory, tokens }: PackedTrajectory): Trajectory {
  const rest = JSON.parse(inflateRawSync(trajectory).toString("utf8")) as Omit<Trajectory, "tokens">;
  return tokens ? { ...rest, tokens: unpackTokens(tokens) } : rest;
}
