import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { readFilter } from "../../src/console/event-filter.ts";
import { storeConsole } from "../../src/console/inbox.ts";
import { eventTypes } from "../../src/models/event-types.ts";
import { cli, directory, fileStore } from "../cli/support.ts";
import { eventOf } from "../stores/event.ts";

/** Makes a file with an event of a booking and one of a listing, and the file's console. */
async function recorded() {
  const file = join(directory(), "events.db");
  const store = fileStore(file);
  onTestFinished(() => store.close());
  for (const ref of ["booking:HX3K9", "listing:5717008"]) await store.add(eventOf(ref));
  return { file, site: storeConsole(store, { authorize: () => true, operated: () => {} }) };
}

test("the types of a filter are those of events", () => {
  const types = [...eventTypes, "booking.timer.door-code"];
  const read = (type: string) => readFilter((field) => (field === "type" ? type : undefined));
  expect(types.map(read)).toEqual(types.map((type) => ({ filter: { type }, problems: [] })));
  expect(read("booking.Other").problems).not.toEqual([]);
});

const options = { receivedAfter: "since", receivedBefore: "until" } as const;
const now = new Date().toISOString();

// A time without a zone is UTC, whatever the zone of the machine is.
const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString().slice(0, 16);

test.each([
  ["ref", "HX3K9", 1],
  ["ref", " booking:HX3K9 ", 1],
  ["ref", "5717008", 1],
  ["ref", "listing:5717008", 1],
  ["ref", "guest:HX3K9", "must be booking:<code>, listing:<id>, or message:<code>"],
  ["ref", "booking:", "must be booking:<code>, listing:<id>, or message:<code>"],
  ["type", "booking.Confirmed", 0],
  ["type", "listing.timer.door-code", 0],
  ["type", "booking.Confirmd", "must be one of booking.Initiated"],
  ["state", "pending", 2],
  ["state", "prked", "must be one of"],
  ["reason", "callback", 0],
  ["reason", "bad", "must be one of callback"],
  ["source", "webhook", 2],
  ["source", "me", "must be one of webhook"],
  ["receivedAfter", "1h", 2],
  ["receivedAfter", "2020-01-01", 2],
  ["receivedAfter", inMinutes(-30), 2],
  ["receivedAfter", inMinutes(30), 0],
  ["receivedBefore", now.replace("Z", "+00:00"), 0],
  ["receivedBefore", "1h", 0],
  ["receivedBefore", "2026-13-45", "must be an age such as 2h, or a time"],
  ["receivedBefore", "yesterday", "must be an age such as 2h, or a time"],
] as const)("%s %s means the same to the command line and the console", async (field, text, expected) => {
  vi.stubEnv("TZ", "America/New_York");
  onTestFinished(() => void vi.unstubAllEnvs());
  const { file, site } = await recorded();
  const option = field in options ? options[field as keyof typeof options] : field;
  const { code, stdout, stderr } = await cli(["events", "ls", `--${option}=${text}`, "--store", file]);
  const answer = await site.fetch(new Request(`http://localhost/?${new URLSearchParams({ [field]: text })}`));
  const page = await answer.text();
  if (typeof expected === "string") {
    expect({ code, status: answer.status }).toEqual({ code: 2, status: 400 });
    expect(stderr).toContain(`--${option} ${expected}`);
    expect(page.replaceAll("&lt;", "<").replaceAll("&gt;", ">")).toContain(`${field}: ${expected}`);
  } else {
    expect({ code, status: answer.status }).toEqual({ code: 0, status: 200 });
    expect(stdout.split("\n").length - 1).toBe(expected);
    expect(page.match(/ id="row-/g) ?? []).toHaveLength(expected);
  }
});
