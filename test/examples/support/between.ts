import { expect } from "vitest";
import type { Sandbox } from "../../../src/testing/index.ts";
import { eventually } from "../../support/eventually.ts";
import { serve } from "../../support/serve.ts";

/** A proxy between an example and the platform's API. A test can hold answers back or change them. */
export interface Between {
  /** The base URL for the example. */
  readonly url: string;
  /**
   * Holds answers to matching requests until `release`, except for the first `but` answers. The proxy fetches each
   * answer before it holds it.
   */
  hold(path: RegExp, but?: number): void;
  /** Resolves when `count` answers are held. */
  held(count: number): Promise<void>;
  /** Sends the held answers, and stops holding answers. */
  release(): void;
  /** Changes the platform's answers to matching requests. */
  change(path: RegExp, change: (body: unknown) => unknown): void;
}

export async function between(sandbox: Sandbox): Promise<Between> {
  let holding: RegExp | undefined;
  let pass = 0;
  let kept: (() => void)[] = [];
  const changes: { readonly path: RegExp; readonly change: (body: unknown) => unknown }[] = [];

  const url = await serve(async (request, response) => {
    const path = request.url ?? "";
    const answer = await fetch(`${sandbox.url}${path}`, {
      method: request.method ?? "GET",
      headers: { authorization: request.headers.authorization ?? "" },
    });
    let text = await answer.text();
    for (const { change } of changes.filter((one) => one.path.test(path)))
      text = JSON.stringify(change(JSON.parse(text)));
    const send = () => response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
    if (holding?.test(path) && --pass < 0) kept.push(send);
    else send();
  });

  return {
    url,
    hold: (path, but = 0) => {
      holding = path;
      pass = but;
    },
    held: (count) => eventually(() => expect(kept.length).toBeGreaterThanOrEqual(count)),
    release: () => {
      holding = undefined;
      for (const send of kept) send();
      kept = [];
    },
    change: (path, change) => {
      changes.push({ path, change });
    },
  };
}

/** Returns a command that starts an example's `main.ts` with its clock `ms` ahead. */
export function later(ms: number): string[] {
  const shift = `const now = Date.now; Date.now = () => now() + ${ms};`;
  return [process.execPath, "--import", `data:text/javascript,${encodeURIComponent(shift)}`, "main.ts"];
}
