// Writes bench/README.md and its plots. A run replaces its own sections and leaves the rest of the file.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { plot } from "./plot.ts";

export type Goal =
  | { readonly least: number }
  | { readonly most: number }
  | { readonly text: string; readonly met: boolean };

export interface Row {
  readonly label: string;
  readonly ours: boolean;
  /** The result divided by the base's result. The section's text names the base. */
  readonly ratio: number;
  readonly goal?: Goal;
  /** Cells of the columns after `ratio` and `goal`. */
  readonly figures: readonly string[];
}

export interface Section {
  readonly name: string;
  readonly title: string;
  readonly text: string;
  /** What the goals mean. A run prints goals, and writes only figures, because a goal is for one machine. */
  readonly goals?: string;
  readonly columns: readonly string[];
  readonly rows: readonly Row[];
  readonly plot?: boolean;
}

const folder = new URL("./", import.meta.url);
const file = new URL("README.md", folder);

export function print(section: Section): void {
  const { text, goals = "" } = section;
  console.log(`\n${markdownOf({ ...section, text: `${text} ${goals}`.trim() })}`);
}

/** Writes sections into the document, each between its markers. */
export function write(sections: readonly Section[]): void {
  let document = replaced(readFileSync(file, "utf8"), "machine", machine());
  for (const section of sections) {
    document = replaced(
      document,
      section.name,
      markdownOf(section, (column) => !column.includes("goal")),
    );
    if (!section.plot) continue;
    mkdirSync(new URL("images/", folder), { recursive: true });
    writeFileSync(new URL(`images/bench-${section.name}.svg`, folder), plot(section));
  }
  writeFileSync(file, document);
}

function replaced(document: string, name: string, text: string): string {
  const [begin, end] = [`<!-- bench:${name} -->`, `<!-- /bench:${name} -->`];
  const from = document.indexOf(begin);
  const to = document.indexOf(end);
  if (from < 0 || to < 0) throw new Error(`bench/README.md has no place for ${name}: ${begin} … ${end}`);
  return `${document.slice(0, from)}${begin}\n\n${text}\n${document.slice(to)}`;
}

function markdownOf(section: Section, isShown: (column: string) => boolean = () => true): string {
  const { name, title, text, columns, rows, plot: isPlotted } = section;
  const lines = rows.map((row) => {
    const all = [row.ratio.toFixed(2), goalText(row), ...row.figures];
    const cells = all.filter((_, index) => isShown(columns[index]!));
    const shown = row.ours
      ? [`**${row.label}**`, `**${cells[0]}**`, ...cells.slice(1)]
      : [row.label, ...cells];
    return `| ${shown.join(" | ")} |`;
  });
  return [
    ...[`## ${title}`, "", text, ""],
    `| contestant | ${columns.filter(isShown).join(" | ")} |`,
    `|---|${"---:|".repeat(columns.filter(isShown).length)}`,
    ...[...lines, ""],
    ...(isPlotted ? [`![${title}: the ratios as bars](images/bench-${name}.svg)`, ""] : []),
  ].join("\n");
}

function goalText({ ratio, goal }: Row): string {
  if (!goal) return "";
  if ("text" in goal) return `≤ ${goal.text}${goal.met ? "" : ", missed"}`;
  if ("least" in goal) return `≥ ${goal.least}${ratio >= goal.least ? "" : ", missed"}`;
  return `≤ ${goal.most}${ratio <= goal.most ? "" : ", missed"}`;
}

/** Returns the day, machine and versions of a run. */
function machine(): string {
  const { length, 0: cpu } = cpus();
  // Read the file by path, because some packages do not export their package.json.
  const version = (name: string): string => {
    const paths = ["", "../"].map((up) => new URL(`${up}node_modules/${name}/package.json`, import.meta.url));
    const path = paths.find((each) => existsSync(each));
    return path
      ? (JSON.parse(readFileSync(path, "utf8")) as { readonly version: string }).version
      : "unknown";
  };
  const packages = ["ky", "zod", "pg", "ioredis", "mysql2", "stripe", "svix", "@octokit/webhooks", "openai"];
  const versions = packages.map((name) => `${name} ${version(name)}`).join(", ");
  const programs = [
    programVersion("postgres", ["--version"]) ?? programVersion("psql", ["--version"]),
    programVersion("redis-server", ["--version"]),
    programVersion("mariadbd", ["--version"]) ?? programVersion("mysqld", ["--version"]),
  ].filter((each) => each !== undefined);
  return [
    `Run on ${new Date().toISOString().slice(0, 10)}: ${length} × ${cpu?.model.trim() ?? "an unknown processor"}, ` +
      `${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}.`,
    `Node ${process.version}, ${[...programs, versions].join(", ")}.`,
    "",
  ].join("\n");
}

function programVersion(program: string, args: readonly string[]): string | undefined {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })
      .replace(/\s+/g, " ")
      .slice(0, 60)
      .trim();
  } catch {
    return undefined;
  }
}
