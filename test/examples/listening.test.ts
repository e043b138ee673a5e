import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { choosePort } from "../../examples/day/port.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const root = join(import.meta.dirname, "../..");
const examples = globSync("examples/**/*.{ts,cjs,json}", {
  cwd: root,
  exclude: (name) => /node_modules/.test(String(name)),
}).map((path) => ({ path, code: readFileSync(join(root, path), "utf8") }));

/** Returns the code of each call that opens a port, up to the end of its statement or arrow function. */
function opened(code: string): string[] {
  const calls = code.matchAll(
    /(?:\.listen\((?!\))|[^.\w](?:Deno|Bun)\.serve\(|[^.\w]serve\(\{|"next (?:dev|start))/g,
  );
  return [...calls].map(
    ({ index }) => code.slice(index, index + 120).split(/=>|;|\n {2}routes/)[0] as string,
  );
}

test("the examples that open a port are found", () => {
  expect(examples.flatMap(({ code }) => opened(code)).length).toBeGreaterThan(20);
});

/** Programs for a test or a trial on one machine. All others are apps to copy, which may run in a container. */
const isTrial = (path: string): boolean => /^examples\/(day|run|init|testing)\/|balancer\.ts$/.test(path);
/** For an app with Next.js, the Dockerfile names the address. */
const isManifest = (path: string): boolean => path.endsWith(".json");
const listening = examples.filter(({ code }) => opened(code).length > 0);
const apps = listening.filter(({ path }) => !isTrial(path) && !isManifest(path));

test.each(listening.filter((example) => !apps.includes(example)))("$path listens on loopback", ({ code }) => {
  for (const call of opened(code)) expect(call).toContain("127.0.0.1");
});

test.each(apps)("$path listens on HOST, and ends on SIGINT as on SIGTERM", ({ path, code }) => {
  for (const call of opened(code)) expect(call).toMatch(/\b(HOST|host|hostname)\b/);
  const settings = path.includes("/vendor/") ? "settings.ts" : path.slice("examples/".length);
  const from = readFileSync(join(root, path, "..", settings.split("/").at(-1)!), "utf8");
  expect(from).toMatch(/HOST = "127\.0\.0\.1"|HOST(?:"\))? \?\? "127\.0\.0\.1"/);
  expect(code).toContain('["SIGINT", "SIGTERM"]');
});

const pages = globSync(["README.md", "docs/**/*.md"], {
  cwd: root,
  exclude: (name) => /node_modules/.test(String(name)),
});
const snippets = pages.flatMap((path) =>
  [...readFileSync(join(root, path), "utf8").matchAll(/\n```(?:ts|js)\n([\s\S]*?)\n```/g)]
    .map(([, code = ""]) => ({ path, code }))
    .filter(({ code }) => /\.listen\((?:\{ port: )?3000/.test(code)),
);

test("a code block that opens a port prints that it listens", () => {
  expect(snippets.length).toBeGreaterThan(5);
  const silent = snippets.filter(({ code }) => !code.includes('console.log("listening on port 3000")'));
  expect(silent).toEqual([]);
});

test.each(examples.filter(({ code }) => code.includes('"node:http"')))(
  "$path does not throw on a malformed URL",
  ({ code }) => {
    // new URL() throws on "//", which any client may send.
    expect(code).not.toMatch(/new URL\((?:\w+\.)?(?:request|req|incoming)?\.?url\b/);
  },
);

test("lambda/local.ts answers a malformed URL and goes on", async () => {
  const directory = temporaryFolder();
  cpSync(join(root, "examples/lambda/local.ts"), join(directory, "local.ts"));
  const echo =
    "export const handler = async ({ rawPath }) => ({ statusCode: 200, headers: {}, body: rawPath });";
  writeFileSync(join(directory, "function.ts"), echo);
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  const port = await choosePort();
  const env = { ...process.env, PORT: String(port) };
  const child = spawn(process.execPath, ["local.ts"], {
    cwd: directory,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill());
  await once(child.stdout, "data");
  // `fetch` cannot send these paths.
  for (const path of ["//", "/%", "/hooks"]) {
    const socket = connect(port, "127.0.0.1");
    socket.end(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`);
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toContain(path);
  }
  expect(child.exitCode).toBeNull();
});
