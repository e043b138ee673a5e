import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";
import { manifest, root } from "./support/pack.ts";

let consumer: Consumer;
let script: string;
beforeAll(async () => {
  consumer = await installed();
  const { bin } = JSON.parse(
    readFileSync(join(consumer.directory, "node_modules/stayhook/package.json"), "utf8"),
  ) as { readonly bin: Readonly<Record<string, string>> };
  script = join(consumer.directory, "node_modules/stayhook", bin.stayhook ?? "");
});

test("the command is a script that can be run", async () => {
  expect(readFileSync(script, "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
  expect(statSync(script).mode & 0o111).toBe(0o111);
  expect(await consumer.node(script, "--version")).toMatchObject({
    code: 0,
    stdout: `${manifest.version}\n`,
    stderr: "",
  });
});

test.each([
  ["postgres://127.0.0.1/x", "npm install pg"],
  ["redis://127.0.0.1", "npm install ioredis"],
])("a store whose engine is not installed says what to install: %s", async (store, command) => {
  const { code, stderr } = await consumer.node(script, "events", "counts", "--store", store);
  expect(code).toBe(1);
  expect(stderr).toContain(command);
});

test("the sandbox serves its page, ends by Ctrl-C, and outlives the end of its input", async () => {
  const child = spawn(process.execPath, [script, "sandbox", "--port", "0"], {
    cwd: consumer.directory,
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let printed = "";
  for await (const chunk of child.stdout.setEncoding("utf8")) {
    printed += chunk;
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(printed) ?? [];
    if (!url) continue;
    expect((await fetch(`${url}/v2/listings`)).status).toBe(401);
    // The build puts the text of these files into the package.
    for (const file of ["style.css", "script.js", "icon.svg"]) {
      const asset = await fetch(`${url}/?asset=${file}`);
      expect(await asset.text()).toBe(readFileSync(join(root, "src/console/browser", file), "utf8"));
    }
    break;
  }
  const exited = once(child, "exit");
  child.kill("SIGINT");
  expect(await exited).toEqual([0, null]);
});

test("a pipe that has seen enough is no error", async () => {
  const node = JSON.stringify(process.execPath);
  const { code, stderr } = await new Promise<{ code: number | null; stderr: string }>((resolve) => {
    const child = execFile(
      "sh",
      ["-c", `${node} ${script} --help | head -1`],
      { cwd: root },
      (_e, _out, stderr) => resolve({ code: child.exitCode, stderr }),
    );
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});
