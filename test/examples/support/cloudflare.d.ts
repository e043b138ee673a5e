// The part of Cloudflare's types that examples/cloudflare-worker uses. A project gets the types from `wrangler types`.

interface SqlStorage {
  exec(
    query: string,
    ...bindings: (string | number | ArrayBuffer | null)[]
  ): { toArray(): Record<string, unknown>[] };
}

interface DurableObjectState {
  readonly storage: { readonly sql: SqlStorage; transactionSync<T>(work: () => T): T };
  /** Ends the object's process. The next call starts another one. */
  abort(reason?: string): void;
}

/** Methods run in another process, so each returns a promise. */
type DurableObjectStub<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? (...args: A) => Promise<Awaited<R>>
    : never;
};

interface DurableObjectNamespace<T> {
  getByName(name: string): DurableObjectStub<T>;
}

interface ExecutionContext {
  waitUntil(work: Promise<unknown>): void;
}

interface ScheduledController {
  readonly cron: string;
}

declare module "cloudflare:workers" {
  export abstract class DurableObject<Env = unknown> {
    protected readonly ctx: DurableObjectState;
    protected readonly env: Env;
    constructor(ctx: DurableObjectState, env: Env);
  }
}
