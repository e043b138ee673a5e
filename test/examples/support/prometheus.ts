import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { choosePort } from "../../../examples/day/port.ts";
import { root } from "../../package/support/pack.ts";

export const rulesFile = join(root, "examples/prometheus/alerts.yml");

/** Whether Prometheus is installed. In CI its absence is an error. */
export const hasPrometheus = spawnSync("promtool", ["--version"]).status === 0;
if (!hasPrometheus && process.env.CI)
  throw new Error("prometheus is not installed: in CI nothing is skipped");
if (!hasPrometheus)
  console.warn("SKIPPED: test/examples plays no alert, because prometheus is not installed");

/** The samples of each series, one a minute, as promtool writes them: `0x10 1x5`. */
export type Series = Readonly<Record<string, string>>;

/**
 * Plays the alert rules on made samples.
 *
 * @param at - for each minute to look at, whether the alert must fire then
 * @returns what promtool says is wrong. It is empty if all is as expected
 */
export function wrongIn(alert: string, series: Series, at: Readonly<Record<number, boolean>>): string {
  const firing = `count(ALERTS{alertname="${alert}", alertstate="firing"})`;
  const test = {
    interval: "1m",
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: Object.entries(at).map(([minute, fires]) => ({
      expr: `(${firing} or vector(0)) > bool 0`,
      eval_time: `${minute}m`,
      exp_samples: [{ labels: "{}", value: Number(fires) }],
    })),
  };
  const isLong = Math.max(...Object.keys(at).map(Number)) > 600;
  const file = join(mkdtempSync(join(tmpdir(), "stayhook-promtool-")), "test.json");
  const evaluation_interval = isLong ? "5m" : "1m";
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ rule_files: [rulesFile], evaluation_interval, tests: [test] }));
  const { status, stdout, stderr } = spawnSync("promtool", ["test", "rules", file], { encoding: "utf8" });
  rmSync(dirname(file), { recursive: true });
  return status === 0 ? "" : stdout + stderr;
}

/** Throws if an expression is no PromQL. */
export function checkExpressions(expressions: readonly string[]): void {
  const file = join(mkdtempSync(join(tmpdir(), "stayhook-promtool-")), "rules.json");
  const rules = expressions.map((expr, n) => ({ record: `panel_${n}`, expr }));
  writeFileSync(file, JSON.stringify({ groups: [{ name: "panels", rules }] }));
  execFileSync("promtool", ["check", "rules", file], { encoding: "utf8" });
}

/** A Prometheus that scrapes an app each half second. */
export interface Prometheus {
  /** The values of an expression now. Throws if Prometheus refuses the expression. */
  query(expr: string): Promise<number[]>;
  /** The names of the alerts that fire. Throws if a rule cannot be evaluated. */
  firing(): Promise<string[]>;
}

/** Starts a Prometheus with the alert rules, and kills it after the test. */
export async function startPrometheus(target: number): Promise<Prometheus> {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-prometheus-"));
  const config = {
    global: { scrape_interval: "500ms", scrape_timeout: "500ms", evaluation_interval: "500ms" },
    rule_files: [rulesFile],
    scrape_configs: [{ job_name: "app", static_configs: [{ targets: [`127.0.0.1:${target}`] }] }],
  };
  writeFileSync(join(directory, "prometheus.json"), JSON.stringify(config));
  const url = `http://127.0.0.1:${await choosePort()}`;
  const args = [
    `--config.file=${join(directory, "prometheus.json")}`,
    `--storage.tsdb.path=${join(directory, "data")}`,
    `--web.listen-address=${new URL(url).host}`,
  ];
  const child = spawn("prometheus", args, { stdio: "ignore" });
  onTestFinished(async () => {
    if (child.kill("SIGKILL")) await once(child, "exit");
    rmSync(directory, { recursive: true, force: true });
  });
  const ask = async (path: string) => {
    const answer = (await (await fetch(`${url}/api/v1/${path}`)).json()) as { status: string; data: unknown };
    if (answer.status !== "success") throw new Error(`${path}: ${JSON.stringify(answer)}`);
    return answer.data;
  };
  return {
    async query(expr) {
      const data = (await ask(`query?${new URLSearchParams({ query: expr })}`)) as {
        readonly result: readonly { readonly value: readonly [number, string] }[];
      };
      return data.result.map(({ value }) => Number(value[1]));
    },
    async firing() {
      type Rule = Readonly<Record<"name" | "health" | "state" | "lastError", string>>;
      const { groups } = (await ask("rules")) as {
        readonly groups: readonly { readonly rules: readonly Rule[] }[];
      };
      const all = groups.flatMap(({ rules }) => rules);
      const ill = all.filter(({ health }) => health === "err");
      if (ill.length > 0)
        throw new Error(ill.map(({ name, lastError }) => `${name}: ${lastError}`).join("; "));
      return all.filter(({ state }) => state === "firing").map(({ name }) => name);
    },
  };
}
