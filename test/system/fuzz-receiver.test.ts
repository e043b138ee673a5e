import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { sharedSecret } from "stayhook";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { LIMIT, plain } from "./hostile-bodies.ts";
import { type Attack, attacks } from "./hostile-requests.ts";
import { judge } from "./notification-oracle.ts";
import { randomOf, seedOf } from "./random.ts";
import { type Answer, attack, type Heard } from "./raw-socket.ts";
import { connections, type Seen, watch } from "./watched-server.ts";
import { mutate, request } from "./wire.ts";

const seed = seedOf("receiver");
const thrown: unknown[] = [];
const caught = (error: unknown): void => void thrown.push(error);
process.on("uncaughtException", caught).on("unhandledRejection", caught);
afterAll(() => {
  process.off("uncaughtException", caught).off("unhandledRejection", caught);
});
afterEach(() => expect(thrown.splice(0)).toEqual([]));

/** Runs the attacks, `atOnce` at a time. Returns each attack with the answers to it. */
async function run(port: number, all: readonly Attack[], atOnce = 100): Promise<[Attack, Heard][]> {
  const results: [Attack, Heard][] = [];
  const rest = all.values();
  const worker = async (): Promise<void> => {
    for (const one of rest) {
      // If the answers are known, wait longer for them: the machine may be busy.
      const patience = one.patience ?? (one.statuses ? 10_000 : 1_500);
      results.push([one, await attack(port, one.steps, { ...one, patience })]);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}

const ours = new Set([200, 400, 405, 408, 413]);
/** Statuses of Node's own answers: to bytes that are not HTTP, to an endless request, or to too many headers. */
const nodes = new Set([400, 408, 413, 417, 431]);

/** Returns the fault of an answer, or `undefined` if there is none. */
function wrongWith({ status, headers, body }: Answer, head = false): string | undefined {
  const type = headers.get("content-type");
  if (type === undefined)
    return nodes.has(status) && body === "" ? undefined : `${status} from nobody: ${body}`;
  if (!ours.has(status)) return `${status} is not in the table`;
  if (status === 405 && headers.get("allow") !== "POST") return "405 without Allow";
  if (type !== (status === 200 ? "application/json" : "application/problem+json"))
    return `${status} as ${type}`;
  if (head) return undefined;
  if (body.length > 2_000) return `${status} in ${body.length} bytes`;
  const said = JSON.parse(body);
  return status === 200 || said.status === status ? undefined : `${status} says ${said.status}`;
}

/** Returns the statuses that docs/how-it-works.md allows for the part of a request that Node has read. */
function expected({ method, declared, chunks, complete }: Seen): readonly number[] {
  const body = Buffer.concat(chunks);
  if (method !== "POST") return [405];
  if (declared > LIMIT || body.length > LIMIT) return [413];
  if (!complete) return [408, 400];
  return [judge(body) ? 200 : 400];
}

/** Returns the fault in the handling of a request, or `undefined` if there is none. */
function misjudged(seen: Seen): string | undefined {
  const { answered, added, chunks, closed } = seen;
  const tell = (what: string): string =>
    `${what}: ${JSON.stringify(Buffer.concat(chunks).toString("latin1").slice(0, 300))}`;
  if (answered === undefined && !closed) return tell("never answered");
  const [status] = expected(seen);
  if (answered !== undefined && !expected(seen).includes(answered))
    return tell(`answered ${answered}, not ${status}`);
  if (answered !== 200)
    return added.length > 0 && status !== 200 ? tell("recorded, and not valid") : undefined;
  const verdict = judge(Buffer.concat(chunks));
  const event = added[0]?.event;
  if (added.length !== 1 || !event || !verdict) return tell(`recorded ${added.length} times`);
  const text = Buffer.concat(chunks)
    .toString("utf8")
    .replace(/^\ufeff/, "");
  if (event.eventId !== verdict.eventId || event.ref !== verdict.ref)
    return tell(`recorded as ${JSON.stringify(event)}`);
  const [time, tolerance] = verdict.time === undefined ? [Date.now(), 300_000] : [verdict.time, 1];
  if (Math.abs(Date.parse(event.timestamp) - time) > tolerance) return tell(`recorded at ${event.timestamp}`);
  return event.notification === text ? undefined : tell("recorded other than it came");
}

describe("the receiver, attacked through raw sockets", () => {
  it("gives the documented answers, records only valid notifications, and leaks no connection", async () => {
    const watched = await watch();
    const { port, server, seen, store } = watched;
    const results = await run(port, attacks(randomOf(seed), 3_000));

    const wrong = results.flatMap(([{ name, statuses, head }, { answers, rest }]) => {
      const got = answers.map(({ status }) => status);
      const faults = answers.map((answer) => wrongWith(answer, head)).filter((fault) => fault !== undefined);
      if (rest !== "") faults.push(`half an answer: ${rest.slice(0, 100)}`);
      if (statuses && statuses.join() !== got.join()) faults.push(`${got} where ${statuses} was expected`);
      return faults.map((fault) => `${name}: ${fault}`);
    });
    expect([...new Set(wrong)]).toEqual([]);

    await vi.waitFor(async () => expect(await connections(server)).toBe(0), 5_000);
    expect([...new Set(seen.map(misjudged).filter((fault) => fault !== undefined))]).toEqual([]);

    const recorded = new Set(seen.flatMap(({ added }) => added.map(({ event }) => event.eventId)));
    for (const id of recorded) expect(await store.get(id)).toMatchObject({ eventId: id, state: "pending" });
    expect(await store.counts()).toMatchObject({ pending: recorded.size });
    // Make sure that the run covered enough: each status must occur often.
    const answered = Map.groupBy(seen, ({ answered }) => answered);
    for (const status of ours) expect(answered.get(status)?.length ?? 0).toBeGreaterThan(20);
    expect(recorded.size).toBeGreaterThan(500);
    expect({}).not.toHaveProperty("polluted");
    await watched.close();
  }, 60_000);

  it("lets in by a secret in the URL only what has it, whatever the URL", async () => {
    const secret = "s3cret/+~";
    const watched = await watch({ verify: sharedSecret({ query: "key", secret }) });
    const random = randomOf(seed);
    const key = `key=${encodeURIComponent(secret)}`;
    const right = [
      `/?${key}`,
      `/hooks?a=%&${key}&b=%zz`,
      `http://evil.example/?${key}#x`,
      `/?key=${secret}`,
      `/?${key}&Key=x`,
    ];
    const many = `/?${"a=b&".repeat(3_000)}`;
    const wrong = [
      "/",
      "/?",
      "/?key=",
      "/?key",
      `/?${key}&key=x`,
      `/?key=x&${key}`,
      `/?${key}0`,
      `/#?${key}`,
      `/${key}`,
    ];
    const odd = [
      many,
      "/?%",
      "/?key=%",
      "/?key=%E0%A4%A",
      `/?key[]=${secret}`,
      `/?KEY=${secret}`,
      "*",
      "/%00?key=%00",
    ];
    const all: Attack[] = [
      ...[...right, `${many}${key}`].map((url) => [url, 200] as const),
      ...[...wrong, ...odd].map((url) => [url, 401] as const),
    ].map(([url, status]) => ({
      name: url.slice(0, 60),
      steps: [{ write: request(plain(random), { line: `POST ${url} HTTP/1.1` }) }],
      statuses: [status],
    }));
    for (let times = 0; times < 500; times++) {
      const spoilt = mutate(Buffer.from(`/?${key}`), random)
        .toString("latin1")
        .replace(/[\s\0]/g, "");
      all.push({
        name: "a URL, mutated",
        steps: [{ write: request(plain(random), { line: `POST /${spoilt} HTTP/1.1` }) }],
      });
    }
    const results = await run(watched.port, all);
    const got = results.flatMap(([{ name, statuses }, { answers }]) =>
      statuses && statuses[0] !== answers[0]?.status
        ? [`${name}: ${answers[0]?.status}, not ${statuses}`]
        : [],
    );
    expect(got).toEqual([]);
    const broken = watched.seen.filter(({ answered }) => answered !== 200 && answered !== 401);
    expect(broken).toEqual([]);
    const letIn = watched.seen.filter(({ answered, added }) => answered === 200 || added.length > 0);
    const unfit = letIn.filter(({ url }) => {
      const values = new URL(url.replace(/^\/+/, "/"), "http://x").searchParams.getAll("key");
      return values.length !== 1 || values[0]?.replaceAll(" ", "+") !== secret;
    });
    expect(unfit.map(({ url }) => url)).toEqual([]);
    await watched.close();
  }, 30_000);

  it("costs a process no memory and no handle, and lets it end", async () => {
    const child = await promisify(execFile)(
      process.execPath,
      ["--expose-gc", fileURLToPath(new URL("under-attack.ts", import.meta.url)), String(seed)],
      { timeout: 50_000 },
    );
    const { early, late, handles, connections } = JSON.parse(child.stdout);
    expect({ handles, connections }).toEqual({ handles: [], connections: 0 });
    expect(late - early).toBeLessThan(4_000_000);
  }, 60_000);
});
