import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { appOf, closed, directory, fileStore, platform, receiver, start } from "./support.ts";

/** Makes a deployed app that records notifications in a file. */
async function deployed() {
  const file = join(directory(), "events.db");
  const rows = () => {
    const database = new DatabaseSync(file, { readOnly: true });
    const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    const all = tables.map(({ name }) => database.prepare(`SELECT * FROM "${name}"`).all());
    database.close();
    return all;
  };
  return { file, ...appOf((await platform()).env, { store: fileStore(file) }), rows };
}

/** Starts the command. Resolves when the command has read the store once. */
async function listen(file: string, args: readonly string[], env: Record<string, string> = {}) {
  const running = start(["listen", ...args, "--store", file], { env });
  await eventually(() => expect(running.stderr()).toContain("Forwarding new notifications"));
  await new Promise((resolve) => setTimeout(resolve, 600));
  return running;
}

describe("listen", () => {
  test("posts each new notification as it came, prints its answer, and changes nothing in the store", async () => {
    const { file, store, record, rows } = await deployed();
    await record("OLD");
    const { url, received, urls } = await receiver();
    const running = await listen(file, [], { STAYHOOK_TARGET: `${url}hooks?key=s3cret` });
    const first = await record("HX3K9", { topic: "bookings" });
    await eventually(() => expect(received()).toEqual([first.body]));
    // A change of the event's state forwards nothing.
    expect(await store.discard({ eventId: first.eventId })).toBe(1);
    const second = await record("HX3K9");
    const before = rows();
    await eventually(() => expect(received()).toEqual([first.body, second.body]));
    expect(urls).toEqual(["/hooks?key=s3cret&topic=bookings", "/hooks?key=s3cret"]);
    await eventually(() => expect(running.stdout().trim().split("\n")).toHaveLength(2));
    const [line] = running.stdout().split("\n");
    expect(line).toMatch(
      new RegExp(
        `^\\d\\d:\\d\\d:\\d\\d\\.\\d{3} ${first.eventId} booking:HX3K9 -> ${new URL(url).origin}: 200 in \\d+ ms$`,
      ),
    );
    expect(rows()).toEqual(before);
    running.interrupt();
    const { code, stdout, stderr } = await running.ended;
    expect(code).toBe(0);
    expect(stdout + stderr).not.toContain("s3cret");
  });

  test("begins with --since, forwards one record with --ref, and no events of the reconciler", async () => {
    const { file, store, record } = await deployed();
    const events = [await record("HX3K9"), await record("OTHER"), await record("HX3K9")];
    const rest = { ref: "booking:HX3K9", topic: null, timestamp: "2026-11-21T10:00:00Z" } as const;
    await store.add({ eventId: crypto.randomUUID(), source: "reconcile", notification: null, ...rest });
    // A follow-up event repeats the notification of the first event.
    const { body } = events[0]!;
    await store.add({ eventId: crypto.randomUUID(), source: "webhook", notification: body, ...rest });
    const { url, received } = await receiver();
    await listen(file, ["--since", "1h", "--ref", "hx3k9", "--to", url]);
    await eventually(() => expect(received()).toEqual([events[0]!.body, events[2]!.body]));
  });

  test("forwards more notifications than it reads in one go, the oldest first", async () => {
    const { file, record } = await deployed();
    const bodies: string[] = [];
    for (let n = 0; n < 450; n += 1) bodies.push((await record(`N${n}`)).body);
    const { url, received } = await receiver();
    await listen(file, ["--since", "1h", "--to", url]);
    await eventually(() => expect(received()).toEqual(bodies));
  });

  test("prints why the local endpoint did not answer, and goes on; JSON with --json", async () => {
    const { file, record } = await deployed();
    const { eventId } = await record("HX3K9");
    const args = ["listen", "--since", "1h", "--json", "--to", "-", "--store", file];
    const running = start(args, { input: `${await closed()}/?key=s3cret\n` });
    await eventually(() => expect(running.stdout()).toContain("ECONNREFUSED"));
    expect(JSON.parse(running.stdout())).toMatchObject({ eventId, status: null, error: "ECONNREFUSED" });
    const other = await record("HX3K9");
    await eventually(() => expect(running.stdout()).toContain(other.eventId));
    expect(running.stderr()).toBe("");
  });

  test("warns once while the store cannot be read, and goes on", async () => {
    const { file, record } = await deployed();
    const { url, received } = await receiver();
    const running = await listen(file, ["--to", url]);
    const database = new DatabaseSync(file);
    onTestFinished(() => database.close());
    database.exec("ALTER TABLE stayhook_events RENAME TO gone");
    await eventually(() => expect(running.stderr()).toContain("Trying again."));
    await new Promise((resolve) => setTimeout(resolve, 1200));
    database.exec("ALTER TABLE gone RENAME TO stayhook_events");
    const { body } = await record("HX3K9");
    await eventually(() => expect(received()).toEqual([body]));
    expect(running.stderr().match(/Trying again/g)).toHaveLength(1);
  });
});
