import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { driveBookingAndListing, expectRefusals, platform, subscribe } from "../../examples/support/drive.ts";
import { type Example, SECRET } from "../../examples/support/example.ts";
import { type Consumer, installed } from "../../package/support/consumer.ts";
import { root } from "../../package/support/pack.ts";
import { eventually, PATIENCE } from "../../support/eventually.ts";
import { bundleWorker, startWorkerd } from "./workerd.ts";

const folder = "examples/cloudflare-worker";
const wrangler = JSON.parse(readFileSync(join(root, folder, "wrangler.jsonc"), "utf8"));

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
});

/** Returns the settings of wrangler.jsonc in miniflare's format. */
function configured(EVENTS: string) {
  const [binding] = wrangler.durable_objects.bindings;
  const [migration] = wrangler.migrations;
  expect([binding.class_name, migration.new_sqlite_classes]).toEqual(["Events", ["Events"]]);
  return {
    compatibilityDate: wrangler.compatibility_date,
    durableObjects: { [binding.name]: { className: EVENTS, useSQLite: true } },
  };
}

describe("the store in a Durable Object", () => {
  test("passes the whole contract, inside workerd", async () => {
    const script = await bundleWorker(consumer, {
      paths: ["test/heavy/runtimes/contract-worker.ts", folder],
      external: ["node:*"],
    });
    // The sandbox in stayhook/testing needs this flag.
    const compatibilityFlags = ["nodejs_compat"];
    await using workerd = await startWorkerd(script, { ...configured("TestEvents"), compatibilityFlags });
    const names = (await (await fetch(`${workerd.url}/cases`)).json()) as string[];
    expect(names.length).toBeGreaterThan(80);
    expect(names.some((name) => name.startsWith("restart:"))).toBe(true);
    // Run a few cases at a time: their limits are in real time, and the machine may be busy.
    const left = [...names];
    const broken: (readonly [string, string])[] = [];
    const runner = async () => {
      for (let name = left.shift(); name !== undefined; name = left.shift()) {
        // One connection a case: while a case runs for seconds, workerd closes the idle connections that fetch would use.
        const answer = await fetch(`${workerd.url}/?case=${encodeURIComponent(name)}`, {
          headers: { connection: "close" },
        });
        const text = await answer.text();
        if (text !== "holds") broken.push([name, text]);
      }
    };
    await Promise.all(Array.from({ length: 30 }, runner));
    expect(broken).toEqual([]);
  });
});

interface Scheduled {
  scheduled(options: { readonly cron: string }): Promise<{ readonly outcome: string }>;
}

describe("worker.ts", () => {
  let script: string;
  beforeAll(async () => {
    script = await bundleWorker(consumer, { paths: [`${folder}/worker.ts`, folder] });
  });

  async function start() {
    const sandbox = await platform();
    const workerd = await startWorkerd(script, {
      ...configured("Events"),
      bindings: {
        STAYHOOK_BASE_URL: sandbox.url,
        STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
        WEBHOOK_SECRET: SECRET,
      },
    });
    onTestFinished(() => workerd.miniflare.dispose());
    const example: Pick<Example, "url" | "hooks" | "output" | "said"> = {
      url: workerd.url,
      hooks: `${workerd.url}/hooks?key=${encodeURIComponent(SECRET)}`,
      get output() {
        return workerd.output;
      },
      said: (what) => eventually(() => expect(workerd.output).toMatch(what), PATIENCE),
    };
    return { sandbox, workerd, example };
  }

  test("is told of bookings and listings, once each", async () => {
    const { sandbox, workerd, example } = await start();
    await driveBookingAndListing(sandbox, example as Example);
    await expectRefusals(example);
    expect((await fetch(workerd.url)).status).toBe(404);
    expect(workerd.output).not.toMatch(/different request|hung/);
  });

  test("its cron trigger takes up what is due later", async () => {
    const { sandbox, workerd, example } = await start();
    await subscribe(sandbox, example);
    // The platform does not know the booking. It may lag behind, so the handler retries.
    const eventId = crypto.randomUUID();
    await sandbox.send({ eventId, timestamp: "2026-05-01T12:00:00Z", bookingCode: "LATE1" });
    await example.said(new RegExp(`event ${eventId} .*failed`));
    await sandbox.settled();
    const worker = (await workerd.miniflare.getWorker()) as unknown as Scheduled;
    expect(wrangler.triggers.crons).toEqual(["* * * * *"]);
    expect((await worker.scheduled({ cron: "* * * * *" })).outcome).toBe("ok");
    await sandbox.bookings.create({ bookingCode: "LATE1", status: "Confirmed" });
    await eventually(async () => {
      await worker.scheduled({ cron: "* * * * *" });
      expect(workerd.output).toMatch(/^drained: 1 done, 0/m);
    });
    expect(workerd.output.match(/^block LATE1/gm)).toHaveLength(1);
  });
});
