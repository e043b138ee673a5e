import { execFile } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { spawned } from "./process.ts";
import { cli, directory } from "./support.ts";

describe("the help fits the terminal", () => {
  test.each([48, 64, 120])("%i columns wide", async (columns) => {
    for (const args of [["--help"], ["sandbox", "--help"], ["events", "replay", "--help"]]) {
      const running = spawned(args, { columns });
      expect(await running.ended).toBe(0);
      const lines = running.output().split("\n");
      for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns);
      expect(Math.max(...lines.map(({ length }) => length))).toBeGreaterThan(columns - 16);
    }
  });
});

/** Returns the words that the shell offers for the last word of a line. */
async function offered(shell: "bash" | "zsh" | "fish", words: readonly string[]): Promise<string[]> {
  const file = join(directory(), "completion");
  const { code, stdout } = await cli(["completion", shell]);
  expect(code).toBe(0);
  writeFileSync(file, stdout);
  const quoted = words.map((word) => `'${word}'`).join(" ");
  const scripts = {
    bash: `source ${file}; COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}; _stayhook; printf '%s\\n' "\${COMPREPLY[@]}"`,
    zsh: `compdef() { :; }; compadd() { shift; print -l -- $@; }; words=(${quoted}); CURRENT=${words.length}; source ${file}; _stayhook`,
    fish: `source ${file}; complete --do-complete '${words.join(" ")}'`,
  };
  const flags = { bash: ["--norc"], zsh: ["-f"], fish: ["--no-config"] };
  const { stdout: found } = await promisify(execFile)(shell, [...flags[shell], "-c", scripts[shell]], {
    env: { PATH: process.env.PATH, HOME: directory() },
  });
  const last = words.at(-1) ?? "";
  return found.split("\n").filter((word) => word !== "" && word.startsWith(last));
}

// Every machine that runs these tests has bash. .ci/run installs the other two.
const shells = (["bash", "zsh", "fish"] as const).filter((shell) => existsSync(`/usr/bin/${shell}`));

describe.each(shells)("completion in %s", (shell) => {
  test("offers commands, subcommands and options", async () => {
    expect(await offered(shell, ["stayhook", "con"])).toEqual(["config", "console"]);
    expect(await offered(shell, ["stayhook", "events", "re"])).toEqual(["replay"]);
    expect(await offered(shell, ["stayhook", "events", "ls", "--s"])).toEqual(
      expect.arrayContaining(["--state", "--source", "--since", "--store", "--schema"]),
    );
    expect(await offered(shell, ["stayhook", "listings", "--st"])).toEqual(["--status"]);
    expect(await offered(shell, ["stayhook", "listings", "--status", "x", "--js"])).toEqual(["--json"]);
  });

  test.each([
    ["events ls --state ", ["scheduled", "pending", "processing", "retrying", "done", "parked"]],
    ["events replay --reason callback --state pa", ["parked"]],
    ["events discard --state sch", ["scheduled"]],
    ["events prune --state ", ["done", "parked"]],
    ["events ls --type booking.Con", ["booking.Confirmed"]],
    ["events ls --reason not", ["not-found"]],
    ["events ls --source re", ["recheck", "reconcile"]],
    ["listings --status Pub", ["Published"]],
    ["completion ", ["bash", "zsh", "fish"]],
    ["completion f", ["fish"]],
    ["init node-", ["node-http"]],
    ["trigger listing.Pub", ["listing.Published"]],
  ])("offers the values after stayhook %s", async (line, values) => {
    const found = await offered(shell, ["stayhook", ...line.split(" ")]);
    expect(found.filter((word) => !word.startsWith("--")).toSorted()).toEqual(values.toSorted());
  });

  test("offers no option where a value belongs, so that the shell completes files", async () => {
    for (const line of ["events ls --store ", "events ls --limit ", "copy --from ", "reconcile --accounts "])
      expect(
        (await offered(shell, ["stayhook", ...line.split(" ")])).filter((word) => /^-|^[a-z]+$/.test(word)),
        line,
      ).toEqual([]);
    expect(await offered(shell, ["stayhook", "events", "ls", "--store", "x", "--lim"])).toEqual(["--limit"]);
  });
});
