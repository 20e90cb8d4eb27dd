/** Why pip or uv could not fetch something: the outer cause and its remedy in one line, else their own words. */

const UNREACHABLE =
  /NewConnectionError|Failed to establish a new connection|ConnectTimeout|ReadTimeout|ProxyError|name resolution|dns error|error sending request|tcp connect error|Network is unreachable/i;

/**
 * @param what is fetched, in words
 * @param output of pip or uv
 * @param otherwise in place of their own words
 */
export function whyNotFetched(what: string, output: string, otherwise?: string): string {
  if (/No space left on device|os error 28/.test(output)) {
    return `the disk filled up while fetching ${what}: free some space (TMPDIR too) and start again`;
  }
  if (/DO NOT MATCH THE HASHES|hash mismatch/i.test(output)) {
    return `the package index, or a cache on the way to it, has another file of ${what} than the one whose SHA-256 is known`;
  }
  if (UNREACHABLE.test(output)) {
    return `the package index cannot be reached, so ${what} cannot be fetched: go online once, or set PIP_INDEX_URL or PIP_FIND_LINKS (uv: UV_INDEX_URL, UV_FIND_LINKS; PyTorch: HONE_TORCH_INDEX)`;
  }
  if (otherwise !== undefined) return otherwise;
  const lines = output.trim().split("\n");
  return `${what} could not be fetched: ${(lines.find((line) => /^\s*(ERROR|error|×)/.test(line)) ?? lines.at(-1) ?? "").trim()}`;
}
