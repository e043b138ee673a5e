import { createHash } from "node:crypto";
import { guard, prelude } from "./lua/prelude.ts";
import * as reading from "./lua/reading.ts";
import * as writing from "./lua/writing.ts";

const bodies = { ...reading, ...writing };

export type ScriptName = keyof typeof bodies;

export interface Script {
  readonly text: string;
  /** SHA-1: how Redis calls it once it has it. */
  readonly sha: string;
}

export const scripts = Object.fromEntries(
  Object.entries(bodies).map(([name, body]) => {
    const text = prelude + (name === "start" ? "" : guard) + body;
    return [name, { text, sha: createHash("sha1").update(text).digest("hex") }];
  }),
) as unknown as Readonly<Record<ScriptName, Script>>;
