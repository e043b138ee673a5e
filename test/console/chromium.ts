import { existsSync, mkdirSync } from "node:fs";
import { join, relative } from "node:path";
import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, expect, onTestFinished } from "vitest";

const executablePath = process.env.CHROMIUM_PATH ?? "/usr/bin/chromium";

/** Whether chromium is installed. In CI its absence is an error. */
export const hasChromium = existsSync(executablePath);
if (!hasChromium && process.env.CI)
  throw new Error(`${executablePath} is not installed: in CI nothing is skipped`);
if (!hasChromium) {
  const file = relative(process.cwd(), expect.getState().testPath ?? "");
  console.warn(`SKIPPED: ${file} runs no test in Chromium, because ${executablePath} is not installed`);
}

let browser: Promise<Browser> | undefined;
afterAll(async () => (await browser)?.close());

function launched(): Promise<Browser> {
  browser ??= chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  return browser;
}

/**
 * Opens a page in its own browser context. The test fails if the browser reports an error or a warning, such as a
 * violation of the CSP.
 *
 * @param expected - matches errors and warnings that may occur
 */
export async function openPage(options: BrowserContextOptions = {}, expected?: RegExp): Promise<Page> {
  const context = await (await launched()).newContext({ timezoneId: "UTC", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const troubles: string[] = [];
  page.on("console", (message) => {
    const isTrouble = message.type() === "error" || message.type() === "warning";
    if (isTrouble && !expected?.test(message.text())) troubles.push(message.text());
  });
  page.on("pageerror", (error) => troubles.push(String(error)));
  onTestFinished(async () => {
    await context.close();
    expect(troubles).toEqual([]);
  });
  return page;
}

/**
 * Returns the violations that axe finds on a page.
 *
 * @param rules - default: all
 */
export async function violationsOf(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async (runOnly) => {
    const inPage = (globalThis as unknown as { readonly axe: typeof axe }).axe;
    // The details of the rules that pass take longer than the rules.
    const { violations } = await inPage.run({ resultTypes: ["violations"], ...(runOnly && { runOnly }) });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map(({ target }) => `${id}: ${help}: ${target.join(" ")}`),
    );
  }, rules?.slice());
}

/** Returns by how many pixels a page is wider than its viewport. */
export function overflowOf(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/** Saves a picture of the page if `STAYHOOK_SCREENSHOTS` names a directory. */
export async function screenshot(page: Page, name: string): Promise<void> {
  const directory = process.env.STAYHOOK_SCREENSHOTS;
  if (!directory) return;
  mkdirSync(directory, { recursive: true });
  await page.screenshot({ path: join(directory, `${name}.png`), fullPage: true });
}
