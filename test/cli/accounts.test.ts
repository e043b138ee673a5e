import { rmSync } from "node:fs";
import { join } from "node:path";
import { sqliteStore } from "stayhook/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { storedEvent } from "../stores/event.ts";
import { eventually } from "../support/eventually.ts";
import { cli, directory, receiver, start } from "./support.ts";

/** Makes a store with events of two accounts and of none. */
async function filled() {
  const file = join(directory(), "events.db");
  const store = sqliteStore(file);
  const parked = { state: "parked", reason: "callback", dueAt: null, attempts: 12 } as const;
  const [one, other, plain, alone] = [
    storedEvent({ eventId: "a17/6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11", ref: "a17/booking:HX1", ...parked }),
    storedEvent({ eventId: "b2/6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11", ref: "b2/booking:HX1", ...parked }),
    storedEvent({ eventId: "7f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11", ref: "booking:HX1", ...parked }),
    storedEvent({ eventId: "a17/8f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11", ref: null, ...parked }),
  ] as const;
  await store.restore({ events: [one, other, plain, alone], snapshots: [] });
  await store.close();
  const ids = async (args: string) => {
    const { code, stdout, stderr } = await cli(`events ls ${args} --json --store ${file}`.replace("  ", " "));
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return JSON.parse(stdout).map(({ eventId }: { eventId: string }) => eventId);
  };
  return { file, ids, one, other, plain, alone };
}

describe("accounts on the command line", () => {
  test("--account selects the events of an account, also those without a record", async () => {
    const { ids, one, other, plain, alone } = await filled();
    expect(await ids("--account a17")).toEqual([alone.eventId, one.eventId]);
    expect(await ids("--account b2")).toEqual([other.eventId]);
    expect(await ids("--account A17")).toEqual([]);
    expect(await ids("--ref a17/booking:HX1")).toEqual([one.eventId]);
    expect(await ids("--account a17 --ref HX1")).toEqual([one.eventId]);
    const all = [plain.eventId, other.eventId, one.eventId];
    expect(await ids("--ref HX1")).toEqual(all);
    expect(await ids("--ref booking:hx1 --limit 2")).toEqual(all.slice(0, 2));
    expect(await ids(`--ref booking:HX1 --after ${other.eventId}`)).toEqual([one.eventId]);
    expect(await ids("--ref booking:HX2")).toEqual([]);
  });

  test("replay and show take the id of an event in an account", async () => {
    const { file, one, other } = await filled();
    expect(await cli(`events replay ${one.eventId} --store ${file}`)).toMatchObject({ code: 0 });
    expect(JSON.parse((await cli(`events show ${one.eventId} --json --store ${file}`)).stdout).state).toBe(
      "pending",
    );
    expect(JSON.parse((await cli(`events show ${other.eventId} --json --store ${file}`)).stdout).state).toBe(
      "parked",
    );
    const all = await cli(`events replay --account b2 --yes --store ${file}`);
    expect(all.stdout).toContain("1 event will be handled again");
  });

  test.each([
    ["replay --account b2", '"replayed": 1'],
    ["replay --account b2 --ref hx1", '"replayed": 1'],
    ["replay --account b2 --ref hx2", '"replayed": 0'],
    ["discard --account b2 --ref HX1", '"discarded": 1'],
    ["discard --ref b2/booking:hx1", '"discarded": 1'],
    ["discard --account c3", '"discarded": 0'],
  ])("%s changes the events of this account alone, whatever the case of the code", async (line, said) => {
    const { file, ids, one, other, plain, alone } = await filled();
    const { code, stdout, stderr } = await cli(`events ${line} --yes --json --store ${file}`);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain(said);
    const rest = [alone.eventId, plain.eventId, one.eventId];
    expect(await ids("--state parked")).toEqual(
      said.endsWith("1") ? rest : [alone.eventId, plain.eventId, other.eventId, one.eventId],
    );
  });

  test("ls --follow and listen take --account, and listen posts to the URL of the account", async () => {
    const { file } = await filled();
    const { url, received, urls } = await receiver();
    const followed = start(`events ls --follow --account b2 --ref hx1 --json --store ${file}`);
    const forwarded = start(`listen --account b2 --store ${file}`, {
      env: { STAYHOOK_TARGET: `${url}?key=s3cret` },
    });
    await eventually(() => expect(forwarded.stderr()).toContain("Forwarding"));
    await new Promise((resolve) => setTimeout(resolve, 600));
    const store = sqliteStore(file);
    onTestFinished(() => store.close());
    const bodies: string[] = [];
    for (const account of ["a17", "b2"]) {
      const eventId = crypto.randomUUID();
      const rest = { timestamp: "2026-11-22T09:00:00Z", bookingCode: "HX1", listingId: null };
      const notification = JSON.stringify({ eventId, ...rest });
      await store.add({
        ...{
          eventId: `${account}/${eventId}`,
          ref: `${account}/booking:HX1`,
          source: "webhook",
          topic: "bookings",
        },
        ...{ timestamp: "2026-11-22T09:00:00.000Z", notification },
      });
      bodies.push(notification);
    }
    await eventually(() => expect(received()).toEqual([bodies[1]]));
    expect(urls).toEqual(["/?key=s3cret&topic=bookings&account=b2"]);
    await eventually(() => expect(followed.stdout()).toContain("b2/"));
    expect(followed.stdout()).not.toContain("a17/");
  });

  test("--ref without an account finds a record by its snapshot, in each of many accounts", async () => {
    const file = join(directory(), "events.db");
    const store = sqliteStore(file);
    const accounts = Array.from({ length: 30 }, (_, index) => `account-${index}`);
    const refs = accounts.flatMap((account) => [
      `${account}/booking:HX${account.length}`,
      `${account}/booking:Z`,
    ]);
    const event = (ref: string) =>
      storedEvent({
        eventId: `${ref.split("/")[0]}/${crypto.randomUUID()}`,
        ref,
        state: "done",
        type: "booking.Confirmed",
      });
    const snapshot = { status: "Confirmed", fields: {} };
    await store.restore({
      events: refs.map(event),
      snapshots: refs.map((ref) => ({ ref, snapshot, sequence: 0, seenAt: new Date() })),
    });
    await store.close();
    const refsOf = async (ref: string) =>
      JSON.parse((await cli(`events ls --ref ${ref} --limit 100 --json --store ${file}`)).stdout).map(
        (each: { ref: string }) => each.ref,
      );
    expect((await refsOf("hx10")).sort()).toEqual(refs.filter((ref) => ref.endsWith("HX10")).sort());
    expect(await refsOf("booking:Z")).toHaveLength(30);
    expect(await refsOf("account-3/booking:z")).toEqual(["account-3/booking:Z"]);
  });

  test("a change names the account of a record, because it would otherwise change none", async () => {
    const file = join(directory(), "events.db");
    const store = sqliteStore(file);
    const parked = { state: "parked", reason: "callback", dueAt: null, attempts: 12 } as const;
    await store.restore({
      events: [storedEvent({ eventId: `a17/${crypto.randomUUID()}`, ref: "a17/booking:HX1", ...parked })],
      snapshots: [],
    });
    await store.close();
    const { code, stderr } = await cli(`events replay --ref booking:HX1 --yes --store ${file}`);
    expect(code).toBe(2);
    expect(stderr).toContain(
      "--ref booking:HX1 names no account. Give the account, too, such as --ref a17/booking:HX1.",
    );
  });

  test("erase of a record names its account, also if only its snapshot is left", async () => {
    const file = join(directory(), "events.db");
    const store = sqliteStore(file);
    const snapshot = { status: "Confirmed", fields: {} };
    await store.restore({
      events: [],
      snapshots: [{ ref: "a17/booking:HX1", snapshot, sequence: 0, seenAt: new Date() }],
    });
    await store.close();
    expect(await cli(`erase booking:hx1 --yes --store ${file}`)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        "booking:hx1 names no account. Give the account, too, such as a17/booking:HX1.",
      ),
    });
    expect(await cli(`erase booking:HX2 --yes --store ${file}`)).toMatchObject({ code: 4 });
  });

  test("a table shows the account of an event without a record", async () => {
    const { file } = await filled();
    const { stdout } = await cli(`events ls --account a17 --store ${file}`);
    expect(stdout).toMatch(/\ta17\t/);
    expect(stdout).toContain("\ta17/booking:HX1\t");
  });

  test.each(["erase", "events erase"])(
    "%s --account asks, and erases this account alone",
    async (command) => {
      const { file, ids, other, plain } = await filled();
      expect(await cli(`${command} --account a17 --store ${file}`)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("Delete 2 events and all snapshots of account a17? Add --yes"),
      });
      const { code, stdout } = await cli(`${command} --account a17 --yes --store ${file}`);
      expect(code).toBe(0);
      expect(stdout).toContain("2 events and 0 snapshots of account a17 deleted");
      expect(await ids("")).toEqual([plain.eventId, other.eventId]);
    },
  );

  test("erase takes a ref of an account", async () => {
    const { file, ids } = await filled();
    expect(await cli(`events erase a17/booking:HX2 --yes --store ${file}`)).toMatchObject({ code: 4 });
    expect(await cli(`events erase a17/booking:hx1 --yes --store ${file}`)).toMatchObject({
      code: 0,
      stdout: "1 event and the snapshot of a17/booking:HX1 deleted\n",
    });
    expect(await ids("--ref b2/booking:HX1")).toHaveLength(1);
    expect(await ids("--ref a17/booking:HX1")).toHaveLength(0);
  });

  test("adopt gives what has no account to one, and says so", async () => {
    const { file, ids, plain } = await filled();
    expect((await cli(`events adopt --store ${file}`)).stderr).toContain("Give the account: --account a17.");
    const { code, stdout } = await cli(`events adopt --account c3 --store ${file}`);
    expect(code).toBe(0);
    expect(stdout).toContain("Account c3 has got 1 event and 0 snapshots");
    expect(await ids("--account c3")).toEqual([`c3/${plain.eventId}`]);
    expect((await cli(`events adopt --account c3 --yes --store ${file}`)).stdout).toContain(
      "has got 0 events",
    );
    rmSync(file, { force: true });
  });

  test.each(["account", "ref", "reason", "since"])(
    "an empty --%s does not select all events",
    async (name) => {
      const { file, ids } = await filled();
      const unset = [`--${name}`, "", "--store", file];
      for (const command of ["ls", "discard --yes --state parked", "replay --yes --state parked"])
        expect(await cli(["events", ...command.split(" "), ...unset])).toMatchObject({
          code: 2,
          stderr: expect.stringContaining(`--${name} requires a value`),
        });
      expect(await ids("--state parked")).toHaveLength(4);
    },
  );

  test.each(["events ls", "events erase", "events adopt"])("%s refuses a wrong account", async (command) => {
    const { file } = await filled();
    const { code, stderr } = await cli([...command.split(" "), "--account", "a b", "--store", file]);
    expect(code).toBe(2);
    expect(stderr).toContain("--account must be the id of an account: letters, digits");
  });
});
