// A store in a container: a read-only root, and what is mounted. Needs root, to mount in a namespace of its own.

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";

const directory = mkdtempSync(join(tmpdir(), "stayhook-container-"));
// The user of the test with a read-only root is not the owner.
chmodSync(directory, 0o755);
mkdirSync(join(directory, "volume"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const cannotMount = ((): string | undefined => {
  try {
    inNamespace(['mount -t tmpfs tmpfs "$1"']);
    return undefined;
  } catch (error) {
    return `This user may not mount: ${(error as Error).message}`;
  }
})();

beforeEach(({ skip }) => {
  if (cannotMount === undefined) return;
  if (process.env.CI) throw new Error(`${cannotMount} CI skips nothing.`);
  skip(cannotMount);
});

/** Runs shell commands, whose `$1` is the folder of the tests, in a mount namespace of their own. */
function inNamespace(commands: readonly string[], ...args: string[]): string {
  const script = ["set -e", ...commands].join("\n");
  const unshared = ["--mount", "sh", "-c", script, "sh", directory, ...args];
  return execFileSync("unshare", unshared, { encoding: "utf8", stdio: "pipe" });
}

/** Writes a script for Node that has `sqliteStore`. Returns the command that runs it. */
function scriptOf(name: string, code: string): string {
  const module = new URL("../../../src/stores/sqlite/index.ts", import.meta.url).href;
  const path = join(directory, `${name}.mjs`);
  const event = `{ source: "webhook", topic: null, timestamp: "2026-01-01T00:00:00Z", notification: "x".repeat(500) }`;
  const eventOf = `const eventOf = (n) => ({ eventId: "e" + n, ref: "booking:" + (n % 900), ...${event} });`;
  writeFileSync(path, `import { sqliteStore } from ${JSON.stringify(module)};\n${eventOf}\n${code}`);
  return `${process.execPath} --disable-warning=ExperimentalWarning ${path}`;
}

test("with a read-only root, uid 1000 and no temporary folder, floods and large changes work", () => {
  const run = scriptOf(
    "read-only",
    `import { accessSync, constants } from "node:fs";
    const writable = ["/tmp", "/var/tmp", "/usr/tmp", "."].filter((path) => {
      try { accessSync(path, constants.W_OK); return true; } catch { return false; }
    });
    const store = sqliteStore(process.argv[2]);
    const adds = Array.from({ length: 5000 }, (_, n) => n);
    let refused = 0;
    for (let n = 0; n < 5000; n += 1000)
      await Promise.all(adds.slice(n, n + 1000).map((n) => store.add(eventOf(n)).catch(() => (refused += 1))));
    const filter = { source: "webhook" };
    const said = {
      ...{ uid: process.getuid(), writable, refused },
      discarded: await store.discard(filter),
      replayed: await store.replay(filter),
      again: await store.discard(filter),
      pruned: await store.prune({ state: "done", age: 0, limit: 5000 }),
      counts: await store.counts(),
    };
    await store.close();
    console.log(JSON.stringify(said));`,
  );
  const said = inNamespace([
    'mount -t tmpfs -o mode=755,uid=1000,gid=1000 tmpfs "$1/volume"',
    // The folder of the tests may be on any of these.
    'for path in / /tmp /var/tmp; do ! mountpoint -q "$path" || mount -o remount,bind,ro "$path"; done',
    "cd /",
    `exec setpriv --reuid=1000 --regid=1000 --clear-groups ${run} "$1/volume/events.db"`,
  ]);
  expect(JSON.parse(said)).toMatchObject({
    ...{ uid: 1000, writable: [], refused: 0, discarded: 5000, replayed: 5000, again: 5000, pruned: 5000 },
    counts: { pending: 0, done: 0 },
  });
});

test("a file that is mounted without its folder is refused, and one whose folder is mounted is not", () => {
  const run = scriptOf(
    "mounted",
    `import { existsSync } from "node:fs";
    import { DatabaseSync } from "node:sqlite";
    for (const path of process.argv.slice(2))
      for (const given of [path, new DatabaseSync(path)])
        try { await sqliteStore(given).close(); console.log("opened"); } catch (error) { console.log(error.message); }`,
  );
  const said = inNamespace([
    'cd "$1" && mkdir -p app data same "a b"',
    "mount -t tmpfs tmpfs data",
    "touch data/events.db app/events.db same/events.db 'a b/events.db' same/other.db",
    // As `-v ./events.db:/app/events.db` does, from another file system and from the same one.
    "mount --bind data/events.db app/events.db",
    "mount --bind data/events.db 'a b/events.db'",
    "mount --bind same/other.db same/events.db",
    'ln -s "$1/app/events.db" link-to-file && ln -s "$1/data/events.db" link-to-folder',
    `exec ${run} app/events.db 'a b/events.db' same/events.db link-to-file data/events.db link-to-folder`,
  ]).trim();
  const refused = (name: string) =>
    expect.stringMatching(
      new RegExp(
        `the database cannot be used: the file ${directory}/${name} is mounted alone, without its folder\\. .* mount the folder$`,
      ),
    );
  const names = ["app/events.db", "a b/events.db", "same/events.db", "app/events.db"];
  expect(said.split("\n")).toEqual([
    ...names.flatMap((name) => [refused(name), refused(name)]),
    ...Array.from({ length: 4 }, () => "opened"),
  ]);
});
