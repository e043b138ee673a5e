// Checks the tables of the docs against the code and the tests.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Observation } from "stayhook";
import * as stayhook from "stayhook";
import ts from "typescript";
import { expect, test } from "vitest";
import { parseDuration } from "../../src/duration.ts";
import { eventTypes } from "../../src/models/event-types.ts";
import { checkOptions } from "../../src/webhooks/settings.ts";

const root = join(import.meta.dirname, "../..");
const textOf = (page: string): string => readFileSync(join(root, "docs", page), "utf8");

/** Returns the rows of the page's table whose header begins with `head`, split into cells. */
function rowsOf(page: string, head: string): string[][] {
  const text = textOf(page);
  const rows = rowsIn(text.slice(text.indexOf(`\n| ${head} `)).trim());
  expect(rows, `${page}: ${head}`).not.toEqual([]);
  return rows;
}

/** @param table - begins with the header of the table */
function rowsIn(table: string): string[][] {
  const rows = (table.split("\n\n")[0] ?? "").trim().split("\n").slice(2);
  return rows.map((row) => row.split(" | ").map((cell) => cell.replace(/^\| | \|$/g, "").trim()));
}

/** Returns the rows of all tables of the page whose header begins with `head`. */
function allRowsOf(page: string, head: string): string[][] {
  const tables = textOf(page).split(`\n| ${head} `).slice(1);
  return tables.flatMap((table) => rowsIn(table));
}

const codes = (text = "") => [...text.matchAll(/`([^`]+)`/g)].map(([, code]) => code ?? "");
const names = (rows: string[][]) => rows.flatMap(([first]) => codes(first));

function membersOf(path: string, name: string): string[] {
  const source = ts.createSourceFile(path, readFileSync(join(root, path), "utf8"), ts.ScriptTarget.Latest);
  const declared = source.statements.flatMap(
    (each): { name: ts.Identifier; members: readonly ts.TypeElement[] }[] => {
      if (ts.isInterfaceDeclaration(each)) return [each];
      if (!ts.isTypeAliasDeclaration(each) || !ts.isTypeLiteralNode(each.type)) return [];
      return [{ name: each.name, members: each.type.members }];
    },
  );
  const members = declared
    .find((each) => each.name.text === name)
    ?.members.flatMap((member) => (member.name && ts.isIdentifier(member.name) ? [member.name.text] : []));
  expect(members, name).toBeDefined();
  return members ?? [];
}

test("all types of events, in their order", () => {
  const types = names(rowsOf("events.md", "Event"));
  expect(types.filter((type) => !type.includes(".timer."))).toEqual(eventTypes);
  expect(types).toContain("booking.timer.<name>");
});

test("the fields that events have", () => {
  const text = textOf("events.md");
  const section = text.slice(text.indexOf("\nEvery event has"), text.indexOf("## What changed"));
  const told = codes(section);
  const types = "src/webhooks/events.ts";
  for (const field of [...membersOf(types, "EventBase"), ...membersOf(types, "RecordEventBase")])
    expect(told).toContain(field);
});

test("all options of the handler, with their defaults", () => {
  const rows = allRowsOf("handler.md", "Option");
  const options = membersOf("src/webhooks/options.ts", "WebhookHandlerOptions");
  expect(names(rows).sort()).toEqual([...options].sort());
  const store = stayhook.memoryStore();
  const client = new stayhook.StayhookClient({ baseUrl: "https://x.example", accessToken: "token" });
  for (const [name, value] of Object.entries(checkOptions({ client, store, on: {} }))) {
    if (typeof value !== "number") continue;
    const shown = rows.find(([first]) => first === `\`${name}\``)?.[1] ?? "";
    const text = /^`"(\w+)"`$/.exec(shown)?.[1];
    const number = text === undefined ? Number(shown.replaceAll(",", "")) : parseDuration(text);
    expect(shown === "never" ? Number.POSITIVE_INFINITY : number, name).toBe(value);
  }
});

test("all options of the client", () => {
  const options = [
    ...membersOf("src/client/client-options.ts", "ClientOptions"),
    ...membersOf("src/client/observers.ts", "Observers"),
  ];
  expect(names(rowsOf("client.md", "Option")).sort()).toEqual([...options].sort());
});

test("everything that observe gets", () => {
  const kinds: Record<Observation["kind"], true> = {
    ...{ received: true, duplicate: true, invalid: true, refused: true },
    ...{ started: true, done: true, failed: true, parked: true, paused: true, resumed: true },
    ...{ silent: true, missed: true, drift: true, operated: true },
  };
  expect(names(rowsOf("telemetry.md", "`kind`"))).toEqual(Object.keys(kinds));
});

test("the test that docs/security.md names for each threat is there", () => {
  const security = readFileSync(join(root, "docs/security.md"), "utf8");
  const table = security.slice(security.indexOf("\n| Threat |")).split("\n\n")[0] ?? "";
  const rows = table.trim().split("\n").slice(2);
  expect(rows.length).toBeGreaterThan(15);
  for (const row of rows) {
    const [, path = "", title = ""] = /`(test\/\S+\.test\.ts)`: "(.+)" \|$/.exec(row) ?? [];
    expect(path, row).not.toBe("");
    expect(readFileSync(join(root, path), "utf8"), row).toContain(`"${title}"`);
  }
});

test("README has both commands of a clone where a newcomer sees them", () => {
  const start = readFileSync(join(root, "README.md"), "utf8").split("\n").slice(0, 30).join("\n");
  for (const command of ["`npm ci && npm start`", "`npm ci && npm test`"]) expect(start).toContain(command);
});

test("README has at most 1,700 words", () => {
  expect(readFileSync(join(root, "README.md"), "utf8").split(/\s+/).length).toBeLessThanOrEqual(1700);
});

// Types are exported so that declarations can name them. The editor shows them where a value needs them.
test("each value that stayhook exports stands in a page", () => {
  const index = readFileSync(join(root, "src/index.ts"), "utf8");
  const names = [...index.matchAll(/export \{([^}]*)\}/g)].flatMap(([, list = ""]) =>
    list.split(",").flatMap((each) => (each.trim().startsWith("type ") ? [] : each.trim() || [])),
  );
  expect(names.length).toBeGreaterThan(30);
  const pages = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && !path.startsWith("reference"))
    .map((path) => readFileSync(join(root, "docs", path), "utf8"));
  const text = [readFileSync(join(root, "README.md"), "utf8"), ...pages].join("\n");
  expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([]);
});
