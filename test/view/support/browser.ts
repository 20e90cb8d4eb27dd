/** A browser without a window, where this machine has one: Debian's package "chromium". */
import { existsSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";
import { expect } from "vitest";
import { afterFile } from "../../support/after-file.js";

const found = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

/** Why tests in a browser cannot run, for their names; "" where they can. */
export const lack = found ? "" : " (skipped: there is no Chromium; `apt-get install chromium` brings one)";

let browser: Promise<Browser> | undefined;

afterFile(async () => {
  const opened = await browser;
  browser = undefined;
  await opened?.close();
});

export interface Opened {
  readonly page: Page;
  /** Addresses that were asked for. */
  readonly requests: readonly string[];
  /** Nothing was complained about, and nothing came from elsewhere. */
  clean(from: string): void;
}

export async function openPage(url: string, options: { width?: number; dark?: boolean } = {}): Promise<Opened> {
  // Chromium has no sandbox for root and in most containers; the page is this project's own.
  browser ??= chromium.launch({ executablePath: found as string, args: ["--no-sandbox"] });
  const context = await (await browser).newContext({
    viewport: { width: options.width ?? 1280, height: 900 },
    colorScheme: options.dark ? "dark" : "light",
  });
  // A busy machine draws late; what never comes ends with the test.
  context.setDefaultTimeout(300_000);
  const page = await context.newPage();
  const requests: string[] = [];
  const complaints: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  await page.goto(url);
  return {
    page,
    requests,
    clean: (from) => {
      expect(complaints).toEqual([]);
      expect(requests.filter((one) => !one.startsWith(from) && !one.startsWith("data:"))).toEqual([]);
    },
  };
}
