/** Address, token and cache folder of the Hub, from the variables that Hugging Face's own tools read. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../core/config/config.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { cacheHome, expandHome } from "../../core/util/paths.js";
import type { downloadOptions } from "../input-options.js";

export type HubConfig = Pick<Config, (typeof downloadOptions)[number]>;

/** Progress of a download. */
export interface HubProgress {
  readonly repository: string;
  readonly file: string;
  /** Bytes of all requested files together. */
  readonly done: number;
  readonly total: number;
}

export interface HubOptions {
  /** HF_ENDPOINT: `https://huggingface.co` or a mirror. */
  readonly endpoint: string;
  /** HF_TOKEN. Sent to the endpoint only, never to where it redirects. */
  readonly token: string | undefined;
  /** HF_HUB_OFFLINE: no request is made. */
  readonly offline: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds without a byte after which a connection counts as dead. */
  readonly stallTimeout?: number;
  /** Milliseconds before the first retry; doubled after each without new bytes. */
  readonly retryDelay?: number;
  /** Folder of the repositories' folders: HF_HUB_CACHE. */
  readonly cache: string;
  readonly onProgress?: ((progress: HubProgress) => void) | undefined;
  /** Receives lines about waiting and downloads. */
  readonly log?: ((text: string) => void) | undefined;
  /** Free bytes of the disk that contains a folder; replaced in tests. */
  freeBytes?(folder: string): number;
}

export const rootOf = ({ endpoint }: Pick<HubOptions, "endpoint">) => endpoint.replace(/\/+$/, "");

const OFFICIAL = "https://huggingface.co";

/** @throws UsageError when HF_ENDPOINT is not a URL, or HF_TOKEN is not a valid token */
export function hubOptionsOf(config: HubConfig, env: NodeJS.ProcessEnv = process.env): HubOptions {
  const { hfEndpoint: endpoint, hfOffline: offline } = config;
  if (!/^https?:\/\/[^/]/.test(endpoint) || !URL.canParse(endpoint)) {
    throw new UsageError(`HF_ENDPOINT: ${endpoint} is no address; give one such as ${OFFICIAL}`);
  }
  const home = expandHome(config.hfHome ?? join(cacheHome(env), "huggingface"));
  const token = (config.hfToken ?? savedToken(endpoint, home, env))?.trim();
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new UsageError("HF_TOKEN holds characters that no token has; give the token alone");
  }
  const cache = expandHome(config.hfCache ?? (env.HUGGINGFACE_HUB_CACHE || join(home, "hub")));
  return { endpoint, token, offline, cache };
}

/** The token saved by `hf auth login`. It belongs to the Hub itself; a mirror gets only a token given explicitly. */
function savedToken(endpoint: string, home: string, env: NodeJS.ProcessEnv): string | undefined {
  if (rootOf({ endpoint }) !== OFFICIAL || /^(1|true|yes|on)$/i.test(env.HF_HUB_DISABLE_IMPLICIT_TOKEN ?? "")) {
    return undefined;
  }
  const file = expandHome(env.HF_TOKEN_PATH || join(home, "token"));
  return (existsSync(file) && readFileSync(file, "utf8").trim()) || undefined;
}

/** The error for files that are missing while offline. */
export function notHere(what: string): HoneError {
  return new HoneError(`${what} was not downloaded before: run once without HF_HUB_OFFLINE`);
}
