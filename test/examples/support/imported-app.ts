// An example's app in the process of the test, which drives its handler and makes the passes of its reconciler.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { WebhookHandler } from "stayhook";
import type { Reconciler } from "stayhook/reconcile";
import { expect, onTestFinished, vi } from "vitest";

const examples = join(import.meta.dirname, "../../../examples");
const generated = join(import.meta.dirname, "../generated");

/** The secret in the URL of the app. URLs must encode it. */
export const SECRET = "a secret of many letters";

export interface Settings {
  readonly accessToken: string;
  /** The platform, in place of the global `fetch`. */
  readonly answer: (input: string, init?: RequestInit) => Promise<Response>;
  readonly zone: string;
  /** The zones of the listings by their ids. */
  readonly zones: Readonly<Record<string, string>>;
}

/** Sets the environment and the platform of the apps of a test. Returns the path of the app's database. */
export function setSettings({ accessToken, answer, zone, zones }: Settings): string {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-app-"));
  const file = join(directory, "events.db");
  const settings = {
    STAYHOOK_BASE_URL: "https://platform.example",
    STAYHOOK_ACCESS_TOKEN: accessToken,
    WEBHOOK_SECRET: SECRET,
    PORT: "0",
    EVENTS_DB: file,
    DATABASE_URL: "",
    TIME_ZONE: zone,
    LISTING_ZONES: JSON.stringify(zones),
  };
  for (const [key, value] of Object.entries(settings)) vi.stubEnv(key, value);
  vi.stubGlobal("fetch", answer);
  onTestFinished(() => {
    vi.unstubAllEnvs();
    vi.unstubAllGlobals();
    rmSync(directory, { recursive: true, force: true });
  });
  return file;
}

/** Imports a copy of an example. The app closes itself after the test. */
export async function importApp(
  name: string,
  settings: Settings,
): Promise<{ readonly webhooks: WebhookHandler; readonly reconciler: Reconciler; readonly file: string }> {
  const file = setSettings(settings);
  const directory = join(generated, `${name}-${process.pid}`);
  cpSync(join(examples, name), directory, { recursive: true });
  const code = readFileSync(join(directory, "main.ts"), "utf8");
  // The test makes the passes, so that it knows when one has ended.
  const driven = code.replace("reconciler.start();", "").replace("{ every:", "{ rate: 10_000, every:");
  expect(driven).toContain("rate: 10_000");
  expect(driven).not.toContain("reconciler.start()");
  writeFileSync(join(directory, "app.ts"), `${driven}\nexport { webhooks, reconciler };\n`);
  const before = process.listeners("SIGTERM");
  const { webhooks, reconciler } = await import(/* @vite-ignore */ join(directory, "app.ts"));
  const [stop] = process.listeners("SIGTERM").filter((listener) => !before.includes(listener));
  onTestFinished(async () => {
    // The app ends its process when it has closed itself.
    const exit = vi.spyOn(process, "exit").mockImplementation((() => {}) as unknown as typeof process.exit);
    await (stop as unknown as () => Promise<void>)();
    expect(exit).toHaveBeenCalledOnce();
    exit.mockRestore();
    process.off("SIGTERM", stop!).off("SIGINT", stop!);
    rmSync(directory, { recursive: true, force: true });
  });
  return { webhooks, reconciler, file };
}
