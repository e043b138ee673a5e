import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isLogger, Log, type LogEntry, type LogLevel } from "../src/logger.ts";

const levels = ["debug", "info", "warn", "error"] as const;

function keeping() {
  const entries: LogEntry[] = [];
  return { entries, log: new Log((entry) => void entries.push(entry)) };
}

function messageOf(text: string, details = {}): string {
  const { entries, log } = keeping();
  log.warn(text, details);
  return entries[0]?.message as string;
}

afterEach(() => void vi.restoreAllMocks());

it("a logger function gets the level, the message and the given details, without the package's own flag", () => {
  const { entries, log } = keeping();
  const error = new Error("no calendar");
  const details = { error, eventId: "e", ref: null, attempt: 2 };
  for (const level of levels) log[level]("x", { ...details, type: undefined, fromUserCode: true });
  const message = "stayhook: x: Error: no calendar";
  expect(entries).toStrictEqual(levels.map((level) => ({ level, message, ...details })));
});

it("a console-like logger gets the message alone, with its own `this`", () => {
  const calls: unknown[][] = [];
  class Lines {
    readonly seen = calls;
    debug = (...line: unknown[]) => void calls.push(["debug", ...line]);
    info = (...line: unknown[]) => void calls.push(["info", ...line]);
    error = (...line: unknown[]) => void calls.push(["error", ...line]);
    warn(...line: unknown[]) {
      this.seen.push(["warn", ...line]);
    }
  }
  const log = new Log(new Lines());
  for (const level of levels) log[level]("x", { error: new Error("y"), reason: "callback" });
  expect(calls).toEqual(levels.map((level) => [level, "stayhook: x: Error: y"]));
});

describe("no logger", () => {
  const said = (write: (log: Log) => void, level: LogLevel = "error"): unknown[][] => {
    const spy = vi.spyOn(console, level).mockImplementation(() => {});
    write(new Log());
    return spy.mock.calls;
  };

  it("writes warnings and errors to the console, not as format strings", () => {
    for (const level of levels) {
      const calls = said((log) => log[level]("100%s %o", { error: new Error("%d") }), level);
      const isWritten = level === "warn" || level === "error";
      expect(calls).toEqual(isWritten ? [["stayhook: 100%s %o: Error: %d"]] : []);
    }
  });

  it.each([{ reason: "callback" }, { fromUserCode: true }])(
    "adds the stack of an error that the user's code threw: %o",
    (details) => {
      const error = new Error("mine");
      const [[text] = []] = said((log) => log.error("x", { error, ...details }));
      const [line, ...frames] = String(text).split("\n");
      expect(line).toBe("stayhook: x: Error: mine");
      expect(frames[0]).toMatch(/^ {4}at .*logger\.test\.ts:\d+:\d+/);
      for (const frame of frames) expect(frame).toMatch(/^ {4}at /);
    },
  );

  it("leaves this package's frames out, and those that stand in the message", () => {
    const error = new Error("m\n    at forged (/etc/passwd:1:1)");
    const own = new URL("../src/", import.meta.url).pathname;
    error.stack = [
      `Error: ${error.message}`,
      "    at mine (/app/src/calendar.js:7:3)",
      "    at dispatch (/app/node_modules/stayhook/dist/chunk-X.js:1:1)",
      "    at async C:\\app\\node_modules\\stayhook\\dist\\index.cjs:1:1",
      `    at async run (file://${own}queue/queue.ts:1:1)`,
      "    at other (/app/node_modules/stayhook-extra/index.js:1:1)",
      "    at \u001b[31m (/app/a.js:1:1)",
    ].join("\n");
    const [[text] = []] = said((log) => log.error("x", { error, reason: "callback" }));
    expect(String(text).split("\n").slice(1)).toEqual([
      "    at mine (/app/src/calendar.js:7:3)",
      "    at other (/app/node_modules/stayhook-extra/index.js:1:1)",
      "    at \\u001b[31m (/app/a.js:1:1)",
    ]);
  });

  it("adds no stack of an error of this package, and survives values without one", () => {
    const bare = Object.assign(new Error("bare"), { stack: undefined });
    const calls = said((log) => {
      log.error("x", { error: new Error("ours"), reason: "denied" });
      for (const error of [bare, "text", null, 0]) log.error("x", { error, reason: "callback" });
    });
    const texts = ["Error: ours", "Error: bare", "text", "null", "0"];
    expect(calls).toEqual(texts.map((text) => [`stayhook: x: ${text}`]));
  });
});

describe("text from outside in a log message", () => {
  it.each([
    ["a newline", "a\nb\r\nc", "a\\nb\\r\\nc"],
    ["an ANSI sequence", "\u001b[2Ja", "\\u001b[2Ja"],
    ["C1 controls and NUL", "a\u009b\u0000\u007f", "a\\u009b\\u0000\\u007f"],
    ["line separators", "a\u2028b\u2029c", "a\\u2028b\\u2029c"],
    ["bidi controls", "\u202ea\u2066b\u200fc\u061c", "\\u202ea\\u2066b\\u200fc\\u061c"],
    ["a lone surrogate", "a\ud800b", "a\\ud800b"],
  ])("is escaped: %s", (_, text, escaped) => {
    expect(messageOf(text)).toBe(`stayhook: ${escaped}`);
  });

  it("is escaped in an error, too, while letters of any script stay, and the line is short", () => {
    const error = new Error("x\ny");
    expect(messageOf("Zoë 東京 🏠", { error })).toBe("stayhook: Zoë 東京 🏠: Error: x\\ny");
    expect(Buffer.byteLength(messageOf("é".repeat(10_000)))).toBeLessThanOrEqual(8192);
    expect(Buffer.byteLength(messageOf("x", { error: new Error("\n".repeat(1e6)) }))).toBeLessThan(8192);
  });
});

describe("a kind of line that a stranger can cause", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("a line that a stranger can cause is written once a minute, and the next line says how many lines were left out", () => {
    const { entries, log } = keeping();
    for (let index = 0; index < 5; index += 1) log.limited("a", "warn", `line ${index}`);
    log.limited("b", "warn", "other");
    vi.advanceTimersByTime(59_999);
    log.limited("a", "warn", "line 5");
    expect(entries.map(({ message }) => message)).toEqual(["stayhook: line 0", "stayhook: other"]);
    vi.advanceTimersByTime(1);
    log.limited("a", "error", "line 6", { error: new Error("x"), eventId: "e" });
    expect(entries[2]).toMatchObject({
      level: "error",
      message: "stayhook: line 6 (5 similar lines were left out): Error: x",
      eventId: "e",
      suppressed: 5,
    });
    vi.advanceTimersByTime(60_000);
    log.limited("a", "warn", "line 7");
    expect(entries[3]).toStrictEqual({ level: "warn", message: "stayhook: line 7" });
  });

  it("is written again where the clock was set back", () => {
    const { entries, log } = keeping();
    log.limited("a", "warn", "x");
    vi.setSystemTime(Date.now() - 3_600_000);
    log.limited("a", "warn", "x");
    expect(entries).toHaveLength(2);
  });

  it("close says the rest, once", () => {
    const { entries, log } = keeping();
    log.limited("a", "warn", "first");
    log.limited("a", "info", "second", { eventId: "2" });
    log.limited("a", "warn", "third", { eventId: "3" });
    log.limited("b", "warn", "alone");
    log.close();
    log.close();
    expect(entries.slice(2)).toStrictEqual([
      {
        level: "warn",
        message: "stayhook: third (2 similar lines were left out)",
        eventId: "3",
        suppressed: 2,
      },
    ]);
  });

  it("fills no memory: kinds beyond a hundred share one limit", () => {
    const { entries, log } = keeping();
    for (let kind = 0; kind < 10_000; kind += 1) log.limited(`kind ${kind}`, "warn", "x");
    expect(entries).toHaveLength(101);
    log.close();
    expect(entries.at(-1)).toMatchObject({ suppressed: 9899 });
  });
});

describe("a logger that fails", () => {
  it("breaks nothing, whether it throws or rejects", async () => {
    const throwing = () => {
      throw new Error("logger");
    };
    new Log(throwing).error("x");
    new Log({ debug: throwing, info: throwing, warn: throwing, error: throwing }).error("x");
    // vitest fails a run with an unhandled rejection.
    new Log(async () => throwing()).error("x");
    await new Promise((resolve) => setImmediate(resolve));
  });

  it("is refused by isLogger where it lacks a method", () => {
    expect([console, () => {}].every(isLogger)).toBe(true);
    expect([null, undefined, {}, "console", { ...console, warn: 1 }].some(isLogger)).toBe(false);
  });
});
