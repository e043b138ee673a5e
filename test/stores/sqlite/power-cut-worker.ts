/** A process that adds, claims, renews and settles events, and tells the test what it has been answered. */
import { readFileSync } from "node:fs";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";

const { path } = JSON.parse(process.argv[2]!) as { readonly path: string };
const store = sqliteStore(path);

/** How often the process has waited for the disk. */
const syncs = (): number => readFileSync(`${path}-wal.syncs`).length;

const waits: Record<string, number> = { add: 0, claim: 0, renew: 0, settle: 0 };
async function counted<T>(name: string, call: Promise<T>): Promise<T> {
  const before = syncs();
  const answer = await call;
  waits[name] = waits[name]! + syncs() - before;
  return answer;
}

await store.counts();
await store.add(eventOf());
for (let n = 0; ; n += 1) {
  const event = eventOf(`booking:${n % 7}`);
  await counted("add", store.add(event));
  process.send?.({ answered: event.eventId });
  const claims = await counted("claim", store.claim(CLAIM));
  await counted("renew", store.renew(claims, 60_000));
  const [first] = claims;
  if (first === undefined) continue;
  await counted("settle", store.settle(first, DONE));
  process.send?.({ settled: first.eventId, waits });
}
