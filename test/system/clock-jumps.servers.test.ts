// libfaketime moves the wall clock of a real process ahead, and leaves its monotonic clock, as a suspend does.

import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, vi } from "vitest";

vi.setConfig({ testTimeout: 120_000 });

const LIBRARY = ["x86_64", "aarch64"]
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`)
  .find((path) => existsSync(path));

describe.skipIf(LIBRARY === undefined)(
  "after a jump of 13 minutes, a timer in 12 minutes fires within 30 s",
  () => {
    test.concurrent.for(["memory", "SQLite"])("%s", async (name, { expect, onTestFinished }) => {
      const folder = mkdtempSync(join(tmpdir(), "stayhook-jump-"));
      const clock = join(folder, "clock");
      writeFileSync(clock, "+0");
      const args = name === "memory" ? [] : [join(folder, "events.db")];
      const app = fork(join(import.meta.dirname, "jumping-app.ts"), args, {
        env: {
          ...process.env,
          LD_PRELOAD: LIBRARY,
          FAKETIME_TIMESTAMP_FILE: clock,
          FAKETIME_NO_CACHE: "1",
          DONT_FAKE_MONOTONIC: "1",
          FAKETIME_DONT_FAKE_MONOTONIC: "1",
        },
      });
      onTestFinished(() => {
        app.kill("SIGKILL");
        rmSync(folder, { recursive: true, force: true });
      });
      expect(await once(app, "message")).toEqual(["sleeps", undefined]);
      const fired = once(app, "message");
      writeFileSync(clock, `+${13 * 60}`);
      const [message] = (await fired) as [{ late: number }];
      // The time of the app shows how long after the jump, which made it a minute late, the timer fired.
      expect(message.late).toBeGreaterThan(50_000);
      expect(message.late).toBeLessThan(60_000 + 31_000 + 10_000);
    });
  },
);
