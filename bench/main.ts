/**
 * `npm run bench` measures all contestants in one run, and writes bench/README.md.
 *
 * - `-- --quick` is shorter and writes nothing.
 * - `-- --only intake,client` runs some sections: intake, in-process, end-to-end, wake, client, import, size, stores, latency.
 * Others run only by their names: `scale` has a million events in each store, `skipping` measures `except`, and `paused` has
 *   20,000 events of a paused account.
 * - `-- --of bare,memory,SQLite` runs some contestants of a section. Include `bare`: it is the base of most ratios.
 * - `-- --beside ../old` measures another build of the package in the same rounds of intake, end-to-end and stores, and
 *   writes nothing. Build it with `git worktree add --detach ../old <commit>`, `npm ci` and `npm run build`.
 */

import { parseArgs } from "node:util";
import { mysqlUrl } from "../test/support/mysql-server.ts";
import { postgresUrl } from "../test/support/postgres-server.ts";
import { startOwnRedis } from "../test/support/redis-server.ts";
import { buildIn } from "./beside.ts";
import { clientReads } from "./client.ts";
import { intake, intakeInProcess } from "./intake.ts";
import { latency } from "./latency.ts";
import type { Servers } from "./open-store.ts";
import { importTimes, sizes } from "./package-cost.ts";
import { paused } from "./paused.ts";
import { endToEnd, wakes } from "./processing.ts";
import { print, type Section, write } from "./report.ts";
import { scale } from "./scale.ts";
import { skipping } from "./skipping.ts";
import { stores } from "./stores.ts";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean" },
    only: { type: "string" },
    of: { type: "string" },
    beside: { type: "string" },
  },
});
const quick = values.quick === true;
const of = values.of?.split(",");
const beside = values.beside === undefined ? undefined : buildIn(values.beside);

// Redis must write to disk before it answers, like the other stores.
const redis = await startOwnRedis({ args: ["--appendfsync", "always"] });
process.env.BENCH_SERVERS = JSON.stringify({
  postgres: (await postgresUrl()) ?? "",
  redis: redis?.url ?? "",
  mysql: (await mysqlUrl()) ?? "",
} satisfies Servers);

const sections: Readonly<Record<string, () => Section | Promise<Section>>> = {
  latency: () => latency(quick ? 100 : 1500, of),
  intake: () => (quick ? intake(2, 300, of, beside) : intake(9, 500, of, beside)),
  "in-process": () => (quick ? intakeInProcess(2, 300) : intakeInProcess(9, 500)),
  "end-to-end": () => (quick ? endToEnd(2, 300, of, beside) : endToEnd(5, 1000, of, beside)),
  wake: () => wakes(quick ? 10 : 60),
  client: () => (quick ? clientReads(2, 200) : clientReads(7, 500)),
  import: () => importTimes(quick ? 3 : 11),
  size: () => sizes(),
  stores: () => stores(quick ? 2 : 7, of, beside),
};
/** Run only by their names, because they take minutes. */
const slow = {
  scale: () => scale(quick ? [1_000, 10_000] : [10_000, 1_000_000], of),
  skipping: () => skipping(quick ? [0, 2_000] : undefined, of),
  paused: () => (quick ? paused(500, 5, of) : paused(20_000, 20, of)),
};

const results: Section[] = [];
try {
  for (const name of values.only?.split(",") ?? Object.keys(sections)) {
    const measure = { ...sections, ...slow }[name];
    if (!measure)
      throw new Error(`no section is called ${name}; there are ${Object.keys(sections).join(", ")}`);
    console.error(`measuring ${name} …`);
    const section = await measure();
    print(section);
    results.push(section);
  }
} finally {
  await redis?.close();
}
if (!quick && !of && !beside) write(results);
// A server that this run started would keep the process alive.
process.exit();
