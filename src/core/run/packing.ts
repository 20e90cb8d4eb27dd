/** Trajectories as the store keeps them: tokens as packed arrays, everything else as compressed JSON. */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { type Branch, type Trajectory, trajectoryIn } from "../rollout/trajectory.js";
import type { TokenRecord } from "../rollout/transcript.js";
import { toJson } from "../util/json.js";

export interface PackedTrajectory {
  /** Deflated JSON of everything except the tokens; of a rollout with several sequences, with their lengths. */
  readonly trajectory: Buffer;
  /** Deflated, of all sequences one after the other; null for players that have no tokens. */
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

/** What is kept beside the packed tokens of a sequence. */
type About = Pick<TokenRecord, "allowed" | "evaluated">;

interface Body extends Omit<Trajectory, "tokens" | "branches">, About {
  /** Of the further sequences, whose tokens follow those of the first. */
  readonly branches?: readonly (Omit<Branch, "tokens"> & About & { readonly length: number })[];
}

const aboutOf = ({ allowed, evaluated }: { [name in keyof About]: About[name] | undefined }): About => ({
  ...(allowed ? { allowed } : {}),
  ...(evaluated ? { evaluated } : {}),
});

const joined = (records: readonly TokenRecord[]): TokenRecord => ({
  ids: records.flatMap(({ ids }) => ids),
  sampled: records.flatMap(({ sampled }) => sampled),
  logprobs: records.flatMap(({ logprobs }) => logprobs),
});

const slice = ({ ids, sampled, logprobs }: TokenRecord, from: number, to: number): TokenRecord => ({
  ids: ids.slice(from, to),
  sampled: sampled.slice(from, to),
  logprobs: logprobs.slice(from, to),
});

export function pack({ tokens, branches, ...rest }: Trajectory): PackedTrajectory {
  const shown = branches?.map(({ tokens, ...branch }) => ({
    ...branch,
    length: tokens.ids.length,
    ...aboutOf(tokens),
  }));
  const body: Body = {
    ...rest,
    ...(tokens ? aboutOf(tokens) : {}),
    ...(shown ? { branches: shown } : {}),
  };
  return {
    trajectory: deflateRawSync(toJson(body), LEVEL),
    tokens: tokens ? packTokens(branches ? joined([tokens, ...branches.map((one) => one.tokens)]) : tokens) : null,
  };
}

export function unpack({ trajectory, tokens }: PackedTrajectory): Trajectory {
  const {
    branches = [],
    allowed,
    evaluated,
    ...rest
  } = trajectoryIn(inflateRawSync(trajectory).toString("utf8")) as Body;
  if (!tokens) return rest;
  const all = unpackTokens(tokens);
  if (branches.length === 0) return { ...rest, tokens: { ...all, ...aboutOf({ allowed, evaluated }) } };
  let end = all.ids.length - branches.reduce((sum, { length }) => sum + length, 0);
  const first = { ...slice(all, 0, end), ...aboutOf({ allowed, evaluated }) };
  const others = branches.map(({ length, allowed, evaluated, ...branch }) => {
    end += length;
    return { ...branch, tokens: { ...slice(all, end - length, end), ...aboutOf({ allowed, evaluated }) } };
  });
  return { ...rest, tokens: first, branches: others };
}
