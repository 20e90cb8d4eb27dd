/**
 * Address lists to bare lower-case addresses. Most are plain and read quickly; everything else goes through
 * postal-mime's parser. An address is what the mail says: display names never become addresses.
 */
import { addressParser } from "postal-mime";

/** Dots may stand anywhere in the local part: `k..allen@enron.com` and `.palmer@enron.com` are real. */
const plain = /^[a-z0-9.!#$%&*+/=?^_{|}~-][a-z0-9.!#$%&'*+/=?^_{|}~-]*@[a-z0-9.-]+$/;
const unusual = /^[^\s"<>()[\],:;\\\p{Cc}]+@[^\s"<>()[\],:;\\@\p{Cc}]+$/u;

/** One address in the form the database knows it by, or undefined when it is none. */
export function normalAddress(address: string): string | undefined {
  const lower = address.trim().toLowerCase();
  if (plain.test(lower)) return lower;
  const at = lower.lastIndexOf("@");
  if (at === -1) return undefined;
  // Quotes around a local part mean nothing, and Outlook put whole addresses into apostrophes: 'ann@x.org'.
  const local = lower.slice(0, at).replace(/["\\:]/g, "");
  const domain = lower.slice(at + 1).replace(/'+$/, "");
  const bare = `${local.replace(/^'+|'+$/g, "")}@${domain}`;
  return unusual.test(bare) ? bare : undefined;
}

/** All addresses of a header's values, each once, in order. */
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

/** Addresses in Exchange's X-To, which mostly holds names: only what has a full domain counts (not `Ann Lee@ECT`). */
export function readExchangeAddresses(values: readonly string[] | undefined): string[] {
  return readAddresses(values).filter((address) => /\.[a-z]{2,}$/.test(address));
}
