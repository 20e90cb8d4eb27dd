/**
 * Parses address lists to bare lower-case addresses. Most are plain and parsed quickly; the others go through
 * postal-mime's parser. Display names never become addresses.
 */
import { addressParser } from "postal-mime";

/** Dots may stand anywhere in the local part: `k..allen@enron.com` and `.palmer@enron.com` are real. */
const plain = /^[a-z0-9.!#$%&*+/=?^_{|}~-][a-z0-9.!#$%&'*+/=?^_{|}~-]*@[a-z0-9.-]+$/;
const unusual = /^[^\s"<>()[\],:;\\\p{Cc}]+@[^\s"<>()[\],:;\\@\p{Cc}]+$/u;

/** An address in normal form for the database; undefined when it is not an address. */
export function normalAddress(address: string): string | undefined {
  const lower = address.trim().toLowerCase();
  if (plain.test(lower)) return lower;
  const at = lower.lastIndexOf("@");
  if (at === -1) return undefined;
  // Quotes around a local part are insignificant, and Outlook put whole addresses into apostrophes: 'ann@x.org'.
  const local = lower.slice(0, at).replace(/["\\:]/g, "");
  const domain = lower.slice(at + 1).replace(/'+$/, "");
  const bare = `${local.replace(/^'+|'+$/g, "")}@${domain}`;
  return unusual.test(bare) ? bare : undefined;
}

/** All addresses of a header's values, without duplicates, in order. */
export function readAddresses(values: readonly string[] | undefined): string[] {
  if (!values) return [];
  const found = new Set<string>();
  for (const value of values) {
    const entries = value.split(",").map((entry) => entry.trim().toLowerCase());
    if (entries.every((entry) => plain.test(entry))) {
      for (const entry of entries) found.add(entry);
      continue;
    }
    for (const { address } of addressParser(value, { flatten: true })) {
      const normal = address ? normalAddress(address) : undefined;
      if (normal) found.add(normal);
    }
  }
  return [...found];
}

/**
 * Addresses in Exchange's X-To, which mostly holds names: only entries with a full domain count (not `Ann Lee@ECT`).
 */
export function readExchangeAddresses(values: readonly string[] | undefined): string[] {
  return readAddresses(values).filter((address) => /\.[a-z]{2,}$/.test(address));
}
