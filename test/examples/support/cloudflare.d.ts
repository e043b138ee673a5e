// Of Cloudflare's own types, which a project has by `wrangler types`, what examples/cloudflare-worker uses.

interface SqlStorage {
  exec(
    query: string,
    ...bindings: (string | number | ArrayBuffer | null)[]
  ): { toArray(): Record<string, unknown>[] };
}

interface DurableObjectState {
  readonly storage: { readonly sql: SqlStorage; transactionSync<T>(work: () => T): T };
  /** Ends the object's process; the next call begins another. */
  abort(reason?: string): void;
}

/** Methods are called in another process. */
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
