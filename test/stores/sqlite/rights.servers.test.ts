// Files and volumes that a store may not write: a full one, and those of another user. Needs root.

import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { eventually } from "../../support/eventually.ts";
import { eventOf } from "../event.ts";

const isRoot = process.getuid?.() === 0;
const directory = mkdtempSync(join(tmpdir(), "stayhook-rights-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Mounts a small file system. Returns `undefined` where that is not allowed, as in most containers. */
function mounted(options: string): string | undefined {
  const path = mkdtempSync(join(directory, "mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", path], { stdio: "pipe" });
  } catch {
    return undefined;
  }
  onTestFinished(() => void execFileSync("umount", ["-l", path]));
  return path;
}

describe.skipIf(!isRoot)("a store that may not write", () => {
  /** Opens a store as the user `nobody`. Returns the message of its error. */
  function openedByNobody(path: string): string {
    const script = `
      process.setuid(65534);
      try { sqliteStore(${JSON.stringify(path)}); console.log("opened"); } catch (error) { console.log(error.message); }`;
    const module = JSON.stringify(new URL("../../../src/stores/sqlite/index.ts", import.meta.url).href);
    const code = `import { sqliteStore } from ${module};${script}`;
    return execFileSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" });
  }

  test.each<[string, (folder: string) => void, RegExp]>([
    [
      "the directory",
      (folder) => {
        sqliteStore(join(folder, "events.db")).close();
        chmodSync(join(folder, "events.db"), 0o666);
      },
      /uid 65534\) may not read and write the directory .*, which belongs to uid 0 and has the mode 755\. SQLite writes/,
    ],
    ["the directory of a new file", () => {}, /uid 65534\) may not read and write the directory .* mode 755/],
    [
      "the file",
      (folder) => {
        writeFileSync(join(folder, "events.db"), "");
        chmodSync(join(folder, "events.db"), 0o600);
        chownSync(folder, 65534, 65534);
      },
      /uid 65534\) may not read and write the file .*events\.db, which belongs to uid 0 and has the mode 600/,
    ],
  ])("names the right, and %s", (name, prepare, message) => {
    chmodSync(directory, 0o755);
    const folder = join(directory, name.replaceAll(" ", "-"));
    mkdirSync(folder, { mode: 0o755 });
    prepare(folder);
    expect(openedByNobody(join(folder, "events.db"))).toMatch(message);
  });

  test("names a mount that is read-only", async ({ skip }) => {
    const path = mounted("size=4m");
    if (path === undefined) return skip("this user may not mount");
    await sqliteStore(join(path, "events.db")).close();
    execFileSync("mount", ["-o", "remount,ro", path]);
    expect(() => sqliteStore(join(path, "events.db"))).toThrow(/mounted read-only/);
  });

  test("goes on when a volume that was full has room again", async ({ skip }) => {
    const path = mounted("size=5m");
    if (path === undefined) return skip("this user may not mount");
    const filler = join(path, "filler");
    writeFileSync(filler, Buffer.alloc(3 * 1024 * 1024));
    const store = sqliteStore(join(path, "events.db"));
    const event = () => ({ ...eventOf(null), notification: "x".repeat(4000) });
    let [added, refused] = [0, 0];
    while (refused < 3 && added < 2000)
      await store.add(event()).then(
        () => (added += 1),
        () => (refused += 1),
      );
    expect(refused).toBe(3);
    rmSync(filler);
    // A checkpoint is tried once a second at most.
    await eventually(async () => expect(await store.add(event())).toBe("added"));
    for (let n = 0; n < 40; n += 1) expect(await store.add(event())).toBe("added");
    expect(await store.counts()).toMatchObject({ pending: added + 41 });
    await store.close();
  });
});
