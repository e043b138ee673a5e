import { styleText } from "node:util";
import type { Sum } from "./totals.ts";

type Style = Parameters<typeof styleText>[0];

// styleText omits colors if the terminal has none, or if NO_COLOR is set.
const styles = {
  platform: "bold",
  arrived: "cyan",
  duplicate: "gray",
  callback: "green",
  calendar: "magenta",
  failed: "yellow",
  process: "bold",
  killed: "red",
  unheard: "yellow",
  "on disk": "magenta",
} as const satisfies Record<string, Style>;

/** Prints each action with its time in seconds and its kind. */
export function createAccount() {
  const started = performance.now();
  const seconds = () => ((performance.now() - started) / 1000).toFixed(2).padStart(6);
  return {
    heading: (text: string) => console.log(`\n${styleText("underline", text)}`),
    line: (kind: keyof typeof styles, text: string) =>
      console.log(
        `${styleText("gray", `${seconds()} s`)}  ${styleText(styles[kind], kind.padEnd(9))}  ${text}`,
      ),
    sum: ({ text, holds }: Sum) =>
      console.log(holds ? `${styleText("green", "✓")} ${text}` : styleText("red", `✗ ${text}: NOT SO`)),
  };
}

export type Account = ReturnType<typeof createAccount>;

/** The first part of an id is enough to tell the ids of a day apart. */
export const shortId = (eventId: string): string => eventId.slice(0, 8);
