import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import type { EventStore } from "stayhook/store";
import { expect, it, onTestFinished } from "vitest";
import { parseBody } from "../../src/webhooks/receiving/parse.ts";
import { eventually } from "../support/eventually.ts";
import { type Answer, type Attack, answersIn, attacks, heardFrom } from "./hostile-requests.ts";
import { randomOf, seedOf } from "./random.ts";

const random = randomOf(seedOf("receiver"));

/** Serves a handler that only receives. */
async function served(store: EventStore): Promise<{ readonly port: number; readonly server: Server }> {
  const webhooks = createWebhookHandler({
    client: new StayhookClient({ baseUrl: "https://platform.example", accessToken: "token" }),
    store,
    on: {},
    verify: false,
    logger: () => {},
    autoStart: false,
    replyWithin: 3_000,
  });
  const limits = { headersTimeout: 3_000, requestTimeout: 5_000, connectionsCheckingInterval: 50 };
  const server = createServer(limits, toNodeHandler(webhooks)).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await webhooks.close();
  });
  return { port: (server.address() as AddressInfo).port, server };
}

/** Runs the attacks, 100 at a time. */
async function run(port: number, all: readonly Attack[]): Promise<[Attack, string][]> {
  const results: [Attack, string][] = [];
  const rest = all.values();
  const worker = async () => {
    for (const one of rest) results.push([one, await heardFrom(port, one, random)]);
  };
  await Promise.all(Array.from({ length: 100 }, worker));
  return results;
}

const connections = (server: Server) =>
  new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );

/** The handler's answers have a body. Node itself answers bytes that are not HTTP, without a body. */
const isDocumented = ({ status, body }: Answer): boolean =>
  body === ""
    ? [400, 408, 413, 431].includes(status)
    : status === 200
      ? body === '{"received":true}'
      : [400, 405, 408, 413].includes(status) && JSON.parse(body).status === status;

it("gives the documented answers, records only valid notifications, and leaks no connection", async () => {
  const store = memoryStore();
  const { port, server } = await served(store);
  const results = await run(port, attacks(random, 2_000));
  const counts = new Map<number, number>();
  for (const [attack, heard] of results) {
    const { answers, rest } = answersIn(heard);
    const statuses = answers.map(({ status }) => status);
    const what = JSON.stringify({
      ...attack,
      bytes: attack.bytes.toString("latin1").slice(0, 300),
      bodies: [],
    });
    expect([rest, answers.filter((answer) => !isDocumented(answer))], what).toEqual(["", []]);
    expect(statuses, what).toEqual(attack.statuses ?? statuses);
    for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
    for (const body of attack.bodies ?? []) {
      const parsed = parseBody(body, undefined);
      if (!parsed.ok || body.length > 16_384) continue;
      const { timestamp: _, ...event } = parsed.event;
      expect(await store.get(event.eventId), what).toMatchObject(event);
    }
  }
  // Bytes in other frames are recorded only if they are a notification, too.
  for (const { notification, eventId, ref } of await store.list({ limit: 10_000 }))
    expect(parseBody(notification ?? "", undefined)).toMatchObject({ ok: true, event: { eventId, ref } });
  // Make sure that the run covered enough: each status must occur often.
  for (const status of [200, 400, 405, 408, 413])
    expect(counts.get(status), String(status)).toBeGreaterThan(20);
  expect({}).not.toHaveProperty("polluted");
  await eventually(async () => expect(await connections(server)).toBe(0));
});

it("keeps nothing of an attack in memory", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const { port, server } = await served(Object.assign(memoryStore(), { add: async () => "added" as const }));
  const heap = async () => {
    await run(port, attacks(random, 400));
    await eventually(async () => expect(await connections(server)).toBe(0));
    // Canceled bodies and the timers of ended requests are freed after a second.
    await sleep(1_600);
    for (let times = 0; times < 3; times += 1) collect();
    return process.memoryUsage().heapUsed;
  };
  const early = await heap();
  await heap();
  expect((await heap()) - early).toBeLessThan(4_000_000);
});
