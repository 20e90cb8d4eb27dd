/**
 * The page as one HTML text with script, style and data; its policy forbids other scripts and requests. The data is in
 * elements that a browser does not run, as JSON without "<" or as base64.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { writeDurably } from "../../core/util/files.js";
import { packageRoot } from "../../core/util/paths.js";
import { isInstalled, reinstall } from "../../core/util/program.js";

export interface PageData {
  readonly id: string;
  /** JSON for an object, base64 for bytes. */
  readonly content: object | Uint8Array;
}

const hashOf = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** Vite's output from web/. */
function built(name: string): string {
  const file = join(packageRoot, "dist/web", name);
  if (!existsSync(file))
    throw new HoneError(
      `the page is not built: ${file} is missing; run ${isInstalled() ? reinstall() : "`yarn build`"}`,
    );
  return readFileSync(file, "utf8");
}

/** In HTML the text of a script ends at "</script" and changes its meaning after "<!--". */
const asJson = (value: object) => JSON.stringify(value).replaceAll("<", "\\u003c");

const asText = ({ content }: PageData) =>
  content instanceof Uint8Array ? Buffer.from(content).toString("base64") : asJson(content);

export interface Page {
  readonly html: string;
  /** Content-Security-Policy, which the HTML also contains. */
  readonly policy: string;
}

/** @param connect the servers that it may request from: its own, or none */
export function pageOf(title: string, connect: "self" | "none", data: readonly PageData[]): Page {
  const script = built("page.js").replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  const style = built("page.css");
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    `connect-src '${connect}'`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const html = [
    "<!doctype html>",
    '<html lang="en"><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">',
    '<link rel="icon" href="data:,">',
    `<title>${title.replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`)}</title>`,
    `<style>${style}</style></head><body><div id="app"></div>`,
    "<noscript>This page is drawn by its script.</noscript>",
    ...data.map((one) => `<script type="application/x-hone-data" id="${one.id}">${asText(one)}</script>`),
    `<script type="module">${script}</script></body></html>`,
  ].join("\n");
  return { html, policy };
}

/**
 * Writes a page that opens from disk.
 *
 * @param flag that named the file
 * @returns the size in bytes
 * @throws HoneError when the file cannot be written, or the page has not been built
 */
export function writePage(flag: string, file: string, title: string, data: readonly PageData[]): number {
  const { html } = pageOf(title, "none", data);
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeDurably(file, html);
  } catch (error) {
    throw new HoneError(`${flag} ${file} cannot be written: ${messageOf(error)}`, { cause: error });
  }
  return Buffer.byteLength(html);
}
