// Measures figures that take minutes. `npm run soak` runs all parts. `npm run soak -- forged` runs one of them. `npm
// run soak -- --events 5000 --stores sqlite` makes a short endurance run. `npm run soak -- forged --groups bad,random`
// plays some of the situations, and `--outage 60` makes their outages last 60 s. `npm run soak -- orders --triples 500
// --stores postgres` runs all pairs and some triples of calls on one store. `npm run soak -- accounts --stores postgres
// --groups token,429` plays some situations of one account among 300. `npm run soak -- accounts-day` plays a day of 300
// accounts. `npm run soak -- mysql` installs MySQL beside the system, as root, and runs the tests of the store on it. `npm
// run soak -- tests` runs all cases of the tests that are too long for CI.
import { parseArgs } from "node:util";
import { accounts } from "./accounts.ts";
import { accountsDay } from "./accounts-day.ts";
import { endurance } from "./endurance.ts";
import { forged } from "./forged.ts";
import { mutants } from "./mutants.ts";
import { mysql } from "./mysql.ts";
import { orders } from "./orders.ts";
import type { StoreName } from "./places.ts";
import { print, type Row } from "./table.ts";
import { allCases } from "./tests.ts";

const STORES: readonly StoreName[] = ["sqlite", "postgres", "redis", "mysql"];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    events: { type: "string" },
    stores: { type: "string" },
    groups: { type: "string" },
    outage: { type: "string" },
    triples: { type: "string" },
    count: { type: "string" },
    seed: { type: "string" },
    in: { type: "string" },
    near: { type: "boolean", default: false },
  },
});
const events = Number(values.events ?? 200_000);
if (!Number.isSafeInteger(events) || events < 1)
  throw new Error("--events must be a whole number, 1 or more.");
const stores = (values.stores?.split(",") ?? STORES) as readonly StoreName[];
const unknown = stores.filter((name) => !STORES.includes(name));
if (unknown.length > 0)
  throw new Error(`There is no store ${unknown[0]}. The stores are ${STORES.join(", ")}.`);

const parts: Readonly<Record<string, { readonly title: string; readonly run: () => Promise<Row[]> }>> = {
  endurance: {
    title: "Bursts, duplicates, outages and killed processes",
    run: () => endurance(stores, events),
  },
  forged: {
    title: "How long a genuine event waits beside forged and unreadable ones, and after outages",
    run: () => forged(values.groups?.split(","), values.outage ? Number(values.outage) * 1000 : undefined),
  },
  accounts: {
    title: "How long the events of 299 accounts wait while one account misbehaves",
    run: () => accounts(stores, values.groups?.split(",")),
  },
  "accounts-day": {
    title: "A day of 300 accounts with lost notifications, killed processes and a refused token",
    run: accountsDay,
  },
  orders: {
    title: "Two and three calls at once, in every order of their statements",
    run: () => orders(stores, values.triples ? Number(values.triples) : undefined),
  },
  mysql: {
    title: "The tests of mysqlStore on MySQL",
    run: mysql,
  },
  mutants: {
    title: "Mutants that no unit test kills",
    run: () =>
      mutants(
        values.in?.split(",") ?? [
          "client",
          "queue",
          "stores/memory",
          "webhooks",
          "reconcile",
          "console",
          "cli",
        ],
        Number(values.count ?? 60),
        Number(values.seed ?? Math.floor(Math.random() * 2 ** 31)),
        values.near,
      ),
  },
  tests: {
    title: "The tests of which CI plays some cases, with all cases",
    run: allCases,
  },
};

const isEndurance = values.events !== undefined || values.stores !== undefined;
const names = positionals.length > 0 ? positionals : isEndurance ? ["endurance"] : Object.keys(parts);
for (const name of names) {
  const part = parts[name];
  if (!part) throw new Error(`There is no part ${name}. The parts are ${Object.keys(parts).join(", ")}.`);
  const rows = await part.run();
  print(part.title, rows);
  if (rows.some(({ failed }) => failed)) process.exitCode = 1;
}
