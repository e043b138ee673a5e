import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { beforeAll, describe, expect, test } from "vitest";
import { type Consumer, installed } from "../../package/support/consumer.ts";
import { manifest, root } from "../../package/support/pack.ts";
import { eventually } from "../../support/eventually.ts";
import { expected } from "./expected.ts";
import { platforms } from "./platforms.ts";
import type { ProcessOptions } from "./process.ts";
import { run, runtimes } from "./runtimes.ts";
import type { SharingOptions } from "./sharing.ts";

const formats = { esm: "mjs", cjs: "cjs" } as const;

let consumers: Readonly<Record<keyof typeof formats, Consumer>>;
beforeAll(async () => {
  const { zod: _, ...esmOnly } = manifest.dependencies;
  consumers = {
    esm: await installed(Object.keys(manifest.dependencies)),
    // An older `require` cannot load ESM-only packages, so the CommonJS build must work without them.
    cjs: await installed(Object.keys(manifest.dependencies).filter((name) => !(name in esmOnly))),
  };
  for (const [format, extension] of Object.entries(formats)) await write(format as "esm", extension);
});

/** Writes the scripts as JavaScript of one format, in a project that has the packed package. */
async function write(format: keyof typeof formats, extension: string): Promise<void> {
  const scripts = format === "esm" ? ["process", "sharing"] : ["process"];
  await build({
    entryPoints: scripts.map((name) => join(import.meta.dirname, `${name}.ts`)),
    outdir: consumers[format].directory,
    outExtension: { ".js": `.${extension}` },
    bundle: true,
    packages: "external",
    // This repository's tsconfig would resolve the package name to src.
    tsconfigRaw: {},
    format,
    platform: "node",
  });
}

const cases = Object.entries(runtimes).flatMap(([name, runtime]) =>
  Object.entries(formats).map(([format, extension]) => ({
    name,
    runtime,
    format: format as keyof typeof formats,
    extension,
  })),
);

const contract = { broken: [], cases: expect.toSatisfy((cases: number) => cases > 75) };

test.concurrent.each(cases)(
  "$name, $format: the client, the handler and its adapter do what they do elsewhere",
  async ({ runtime, format, extension }) => {
    await using peers = await platforms();
    const { directory: home } = consumers[format];
    // The stores are the same in both formats, so test them once.
    const directory = format === "esm" ? join(home, randomUUID()) : undefined;
    if (directory !== undefined) mkdirSync(directory);
    const options: ProcessOptions = { ...peers.options, directory };
    using child = run(runtime, join(home, `process.${extension}`), options);

    await child.said("serving");
    const { sandbox } = peers;
    const { bookingCode } = await sandbox.bookings.request();
    const read = () =>
      expect(sandbox.requests.map(({ path }) => path)).toContain(`/v2/bookings/${bookingCode}`);
    await eventually(read);
    await sandbox.bookings.approve(bookingCode);
    const { listingId } = await sandbox.listings.submit();
    await sandbox.listings.publish(listingId);

    const { code, result, output } = await child.ended;
    expect(code, output).toBe(0);
    const { probe, served, memory, sqlite } = result as Record<string, unknown>;
    expect(probe).toEqual(expected);
    expect(served).toEqual({
      calls: ["booking.Confirmed", "booking.Request", "listing.Published"],
      duplicates: 3,
      refused: 401,
    });
    if (format === "esm") expect({ memory, sqlite }).toEqual({ memory: contract, sqlite: contract });
    const agents = new Set(peers.whims.requests.map(({ headers }) => headers["user-agent"]));
    expect([...agents]).toEqual([`stayhook/${manifest.version}`]);
  },
);

describe("processes that share an SQLite file", () => {
  test.concurrent.each(Object.entries(runtimes))(
    "%s: what was answered 200 survives kill -9, and each event is handled once",
    async (_, runtime) => {
      await using peers = await platforms();
      const { baseUrl, accessToken } = peers.options;
      const { directory } = consumers.esm;
      const ids = (count: number) => Array.from({ length: count }, () => randomUUID());
      const common = { baseUrl, accessToken, file: join(directory, `${randomUUID()}.db`), hang: false };
      const start = (options: SharingOptions) => run(runtime, join(directory, "sharing.mjs"), options);

      const victims = ids(4);
      using victim = start({ ...common, eventIds: victims, total: 4, hang: true });
      await victim.said("hanging");
      victim.kill();
      await victim.ended;

      const others = [ids(20), ids(20)];
      using first = start({ ...common, eventIds: others[0]!, total: 44 });
      using second = start({ ...common, eventIds: others[1]!, total: 44 });
      const calls: string[] = [];
      for (const { ended } of [first, second]) {
        const { code, result, output } = await ended;
        expect(code, output).toBe(0);
        const told = result as { answers: number[]; calls: string[] };
        expect(told.answers).toEqual(Array(20).fill(200));
        calls.push(...told.calls);
      }
      expect(calls.sort()).toEqual([...victims, ...others.flat()].sort());
    },
  );
});

test("the documents say what Deno has to allow", () => {
  const permissions = runtimes.Deno?.args.filter((arg) => arg.startsWith("--allow-"));
  const text = readFileSync(join(root, "docs/runtimes.md"), "utf8");
  expect(permissions?.filter((permission) => !text.includes(permission))).toEqual([]);
});
