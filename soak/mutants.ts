// Draws mutants of src by a seed, and says which of them live: `npm run soak -- mutants --count 60 --seed 7 --in
// client,cli`. All drawn mutants are compiled into a copy of this folder, as switches. One run of the unit tests tells
// which test files reach which mutant. Then these files run once for each mutant, the nearest first. A test of types, of
// the package or of a server kills none.
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import * as ts from "typescript";
import { randomOf } from "../test/system/random.ts";
import type { Row } from "./table.ts";

interface Mutant {
  readonly file: string;
  readonly line: number;
  /** The place in the file: the first and the last character. */
  readonly from: number;
  readonly to: number;
  readonly before: string;
  readonly after: string;
}

const root = join(import.meta.dirname, "..");
/** The longest run of the tests that reach a mutant, ms. It ends a mutant that loops for ever. */
const LONGEST_RUN = 600_000;

/** A module of the copy: it says which mutant is on, and notes which test reaches which mutant. */
const SWITCH = `import { appendFileSync } from "node:fs";
const { MUTANT, MUTANT_HITS } = process.env;
const seen = new Set();
export function isMutant(id) {
  const hit = id + " " + process.env.MUTANT_TEST + "\\n";
  if (MUTANT_HITS && !seen.has(hit)) appendFileSync(MUTANT_HITS, hit);
  seen.add(hit);
  return MUTANT === String(id);
}
`;
const SETUP = `import { expect } from "vitest";
process.env.MUTANT_TEST = expect.getState().testPath;
`;
const CONFIG = `import config from "./vitest.config.ts";
config.test.setupFiles = ["./mutants.setup.ts"];
export default config;
`;

const swapped: Readonly<Record<string, string>> = {
  "===": "!==",
  "!==": "===",
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "&&": "||",
  "||": "&&",
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
};

/** Returns what replaces a node in its mutant, or `undefined` if the node has none. */
function mutationOf(node: ts.Node): string | undefined {
  const { parent } = node;
  if (ts.isBinaryExpression(node)) {
    const [left, sign, right] = [node.left, node.operatorToken, node.right].map((part) => part.getText());
    if (sign === "??") return left;
    const isText = sign === "+" && /["'`]/.test(node.getText());
    return sign! in swapped && !isText ? `(${left}) ${swapped[sign!]} (${right})` : undefined;
  }
  const isCondition =
    (ts.isIfStatement(parent) && parent.expression === node) ||
    (ts.isConditionalExpression(parent) && parent.condition === node);
  if (isCondition) return `!(${node.getText()})`;
  if (ts.isTypeNode(parent)) return undefined;
  if (node.kind === ts.SyntaxKind.TrueKeyword) return "false";
  if (node.kind === ts.SyntaxKind.FalseKeyword) return "true";
  const isValue = !(ts.isPropertyAssignment(parent) && parent.name === node);
  if (ts.isNumericLiteral(node) && isValue) return `${node.text} + 1`;
  const isCalled = ts.isCallExpression(node) && node.expression.kind !== ts.SyntaxKind.SuperKeyword;
  if (ts.isExpressionStatement(parent) && (isCalled || ts.isAwaitExpression(node))) return "undefined";
  return ts.isReturnStatement(parent) ? "undefined" : undefined;
}

function mutantsOf(file: string): Mutant[] {
  const source = ts.createSourceFile(
    file,
    readFileSync(join(root, file), "utf8"),
    ts.ScriptTarget.Latest,
    true,
  );
  const found: Mutant[] = [];
  const visit = (node: ts.Node): void => {
    const after = mutationOf(node);
    const from = node.getStart();
    const line = source.getLineAndCharacterOfPosition(from).line + 1;
    if (after !== undefined && after !== node.getText())
      found.push({ file, line, from, to: node.end, before: node.getText(), after });
    ts.forEachChild(node, visit);
  };
  ts.forEachChild(source, visit);
  return found;
}

/** Draws mutants of which none is within another. */
function draw(files: readonly string[], count: number, seed: number): Mutant[] {
  const random = randomOf(seed);
  const all = files.flatMap(mutantsOf);
  const drawn: Mutant[] = [];
  for (let tries = 50 * count; tries > 0 && drawn.length < count; tries -= 1) {
    const one = random.pick(all);
    const isApart = (other: Mutant) =>
      other.file !== one.file || other.to <= one.from || one.to <= other.from;
    if (drawn.every(isApart)) drawn.push(one);
  }
  return drawn;
}

function copyWith(mutants: readonly Mutant[]): string {
  const folder = mkdtempSync(join(tmpdir(), "stayhook-mutants-"));
  const left = /^(?:node_modules|dist|\.git)$|(?:^|\/)(?:node_modules|generated)$/;
  cpSync(root, folder, { recursive: true, filter: (path) => !left.test(relative(root, path)) });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const written = { "src/mutants.ts": SWITCH, "mutants.setup.ts": SETUP, "mutants.config.ts": CONFIG };
  for (const [name, text] of Object.entries(written)) writeFileSync(join(folder, name), text);
  // From the end of each file to its start, so that the places stay right.
  for (const { file, from, to, before, after } of mutants.toSorted((one, other) => other.from - one.from)) {
    const text = readFileSync(join(folder, file), "utf8");
    const id = mutants.findIndex((one) => one.file === file && one.from === from && one.to === to);
    const changed = `${text.slice(0, from)}(isMutant(${id}) ? (${after}) : (${before}))${text.slice(to)}`;
    const path = relative(dirname(file), "src/mutants.ts");
    const line = `import { isMutant } from "${path.startsWith(".") ? path : `./${path}`}";\n`;
    writeFileSync(join(folder, file), changed.includes(line) ? changed : `${changed}\n${line}`);
  }
  return folder;
}

/** Runs test files, or all. Resolves to whether all passed. */
async function run(folder: string, files: readonly string[], env: Record<string, string>): Promise<boolean> {
  const args = [
    "run",
    "--project",
    "unit",
    "--config",
    "mutants.config.ts",
    "--bail",
    env.MUTANT ? "1" : "0",
  ];
  const child = spawn(
    process.execPath,
    [
      "node_modules/vitest/vitest.mjs",
      ...args,
      "--reporter=json",
      "--outputFile=result.json",
      "--testTimeout=60000",
      ...files,
    ],
    { cwd: folder, stdio: "ignore", detached: true, env: { ...process.env, ...env } },
  );
  const end = env.MUTANT && setTimeout(() => process.kill(-child.pid!, "SIGKILL"), LONGEST_RUN);
  const [code] = await once(child, "exit");
  if (end) clearTimeout(end);
  return code === 0;
}

interface Report {
  readonly testResults: readonly { readonly name: string; readonly status: string }[];
}

/** Returns which test files reach each mutant. Those that fail without a mutant are left out. */
async function reached(
  folder: string,
  mutants: readonly Mutant[],
  played: readonly string[],
): Promise<string[][]> {
  const hits = join(folder, "hits.txt");
  await run(folder, played, { MUTANT_HITS: hits });
  const { testResults } = JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as Report;
  const passed = new Set(testResults.filter(({ status }) => status === "passed").map(({ name }) => name));
  const failed = testResults
    .filter(({ name }) => !passed.has(name))
    .map(({ name }) => relative(folder, name));
  if (failed.length > 0) console.log(`Left out, because they fail without a mutant: ${failed.join(", ")}`);
  const lines = existsSync(hits) ? readFileSync(hits, "utf8").split("\n") : [];
  return mutants.map((_, id) =>
    lines
      .filter((line) => line.startsWith(`${id} `))
      .map((line) => line.slice(`${id} `.length))
      .filter((name) => passed.has(name)),
  );
}

/**
 * Draws mutants of folders of src, and returns a row for each that lives.
 *
 * @param isNear - whether only the tests in the folders of the same name run, which takes a fraction of the time
 */
export async function mutants(
  folders: readonly string[],
  count: number,
  seed: number,
  isNear: boolean,
): Promise<Row[]> {
  const files = folders.flatMap((name) =>
    readdirSync(join(root, "src", name), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => join("src", name, file)),
  );
  const drawn = draw(files, count, seed);
  const folder = copyWith(drawn);
  const rows: Row[] = [];
  try {
    const near = folders.map((name) => join("test", name.split("/")[0]!, "/"));
    const tests = await reached(folder, drawn, isNear ? near : []);
    for (const [id, { file, line, before, after }] of drawn.entries()) {
      const own = join(folder, file.replace(/^src\/([^/]+)\/.*/, "test/$1/"));
      const [nearest, others] = [true, false].map((isOwn) =>
        tests[id]!.filter((name) => name.startsWith(own) === isOwn),
      );
      let lives = true;
      for (const some of [nearest!, others!])
        lives &&= some.length === 0 || (await run(folder, some, { MUTANT: String(id) }));
      console.log(`${id + 1} of ${drawn.length}: ${file}:${line} ${lives ? "lives" : "is killed"}`);
      const cells = {
        mutant: `${file}:${line}`,
        before,
        after,
        "tests that reach it": `${tests[id]!.length}`,
      };
      if (lives) rows.push({ cells, failed: false });
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  console.log(`Of ${drawn.length} mutants, ${rows.length} live (seed ${seed}).`);
  return rows;
}
