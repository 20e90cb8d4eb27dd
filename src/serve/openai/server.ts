/** A chat server: its address and the key sent to it. */
import { UsageError } from "../../core/util/errors.js";

export interface ChatServer {
  /** Base URL, used as it is: with /v1 where the server has it. */
  readonly url: string;
  readonly key: string | undefined;
}

/** Prefix of its options: `--judge-url`, `--judge-key`, HONE_JUDGE_KEY. */
export type ChatRole = "judge" | "player";

/**
 * @param flag where it was given
 * @throws UsageError when it cannot be asked at that address
 */
export function checkChatUrl(role: ChatRole, url: string, flag = `--${role}-url`): void {
  if (!/^https?:/i.test(url) || !URL.canParse(url)) {
    throw new UsageError(`${flag}: ${url} is no URL; give one like http://127.0.0.1:8080/v1`);
  }
  // A run stores its judge's URL and errors contain it, so it must not hold credentials.
  const { username, password } = new URL(url);
  if (username || password) {
    throw new UsageError(`${flag}: no password in it, please; give the key with --${role}-key`);
  }
}

/** OpenAI's own API: its host or a regional one (eu.api.openai.com), over TLS. The host is read as `fetch` reads it. */
export function isOpenAi(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname, username, password } = new URL(url);
  const own = /^([a-z0-9-]+\.)?api\.openai\.com$/.test(hostname);
  return own && protocol === "https:" && username === "" && password === "";
}

/**
 * @param given the key that was given for this server; OPENAI_API_KEY is for OpenAI alone
 * @throws UsageError for one that no header can have, which the message does not repeat
 */
export function keyFor(
  url: string,
  given: string | undefined,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string | undefined {
  const key = (given ?? (isOpenAi(url) ? env.OPENAI_API_KEY : undefined))?.trim() || undefined;
  if (key !== undefined && !/^[\x21\x23-\x26\x28-\x5f\x61-\x7e]+$/.test(key)) {
    throw new UsageError(
      `the key for ${new URL(url).host} has characters that no key has: a space, a line break or quotes`,
    );
  }
  return key;
}

/** Advice for the user after an HTTP status; undefined for an unknown one. */
export function refusalHint(role: ChatRole, { url, key }: ChatServer, status: number): string | undefined {
  if (status === 204 || status === 205 || (status >= 300 && status < 400))
    return `give the base URL of the chat API that is meant as --${role}-url (most end in /v1)`;
  if (status !== 401 && status !== 403) return undefined;
  const option = `--${role}-key or HONE_${role.toUpperCase()}_KEY`;
  if (isOpenAi(url)) {
    return key === undefined ? `set OPENAI_API_KEY, or give its key with ${option}` : `check OPENAI_API_KEY, ${option}`;
  }
  if (key !== undefined) return `check the key that was given with ${option}`;
  return `give its key with ${option} (OPENAI_API_KEY is sent to OpenAI's own host only)`;
}

/** As it is told: a query may have a key in it. */
export const shownUrl = (url: string): string => url.replace(/\?.*$/s, "");
