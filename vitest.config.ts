import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { subpaths } from "./subpaths.config.ts";

/**
 * `npm run test:servers` runs these files, and `npm test` runs all others. A test belongs here if it needs a server, a
 * browser, the packages of test/heavy or the packed package, or if it runs or kills many processes.
 */
const servers = [
  "test/heavy/**/*.test.ts",
  "test/stores/{every,mysql,postgres,redis}/**/*.test.ts",
  "test/{docs,examples,package,system}/**/*.test.ts",
  "test/**/*.servers.test.ts",
];

/** The files that take longest, the longest first. Begun last, one would run alone while the other cores have nothing to do. */
const longest = `package/init package/declarations every/migrations system/outages orm/orm every/crashes
  console/incident.servers package/types many-machines/load docs/blocks every/outages examples/recipes
  many-machines/outages mysql/settings postgres/settings orders/orders.servers every/contract every/race
  examples/whole-state console/pages.servers engines/engines every/dead-connections reconcile/passes queue/refusals
  processing/gone client/on-undici webhooks/exit client/timeouts`
  .split(/\s+/)
  .map((name) => `/${name}.test.ts`);

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) => {
      const place = longest.findIndex((name) => moduleId.endsWith(name));
      return place === -1 ? longest.length : place;
    };
    return (await super.sort(files)).toSorted((one, other) => placeOf(one) - placeOf(other));
  }
}

export default defineConfig({
  resolve: {
    alias: Object.entries(subpaths).map(([name, path]) => ({
      find: new RegExp(`^stayhook${name === "index" ? "" : `/${name}`}$`),
      replacement: fileURLToPath(new URL(path, import.meta.url)),
    })),
  },
  test: {
    // Many tests wait for servers, processes and time limits, so two cores are busy only with three workers.
    maxWorkers: Math.max(3, availableParallelism()),
    // Without this line, vitest replaces the text of style.css?raw by an empty text.
    css: { include: [/\?raw$/] },
    // This ends what hangs. On a machine with other work, a test that takes seconds takes minutes, so none has less.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    sequence: { sequencer: LongestFirst },
    globalSetup: "test/support/compile-cache.ts",
    // A place that reads local time by mistake is wrong here. It is right where the machine's zone is UTC, as in CI.
    env: { TZ: "Pacific/Auckland" },
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: [...servers, "**/node_modules/**"],
          env: { STAYHOOK_WITHOUT_SERVERS: "1" },
          // Each worker loads the modules once, which halves the CPU of small files. A file that leaves something
          // behind, such as a clock or an environment variable, fails others. The soak runs each file in a worker of its own.
          isolate: false,
          setupFiles: ["test/support/end-of-file.ts", "test/support/same-waits.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "servers",
          include: servers,
          exclude: ["**/node_modules/**"],
          setupFiles: "test/support/same-waits.ts",
        },
      },
    ],
  },
});
