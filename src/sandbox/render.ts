import type { PlatformResponse } from "./routes.ts";

/** An answer as it goes over the wire. */
export interface WireResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** `undefined` for no body at all. */
  readonly text: string | undefined;
}

/** Makes an answer of the platform into one that goes over the wire. The project's own tests have others. */
export type Render = (response: PlatformResponse) => WireResponse;

/** Records stand alone, a list is an array, an error is `{ error }`, and 204 answers a delete. */
export const render: Render = ({ shape, status, body, headers }) => {
  if (shape === "write" && body === undefined)
    return { status: 204, headers: { ...headers }, text: undefined };
  const isError = shape === "error" || shape === "no-config";
  return {
    status,
    headers: { "content-type": "application/json", ...headers },
    text: JSON.stringify(isError ? { error: body } : body),
  };
};
