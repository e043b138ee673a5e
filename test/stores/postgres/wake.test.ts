import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { CLAIM, eventOf } from "../event.ts";
import { postgresProxy } from "./proxy.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

/** Shorter than the ten seconds after which a listener wakes without a message, in ms. */
const CALLED = 8000;
/** Far longer than a test, so that no poll wakes a subscriber, in ms. */
const NEVER = 3_600_000;

describePostgres("other processes' events", () => {
  const schemas = createSchemas();

  /** Makes a subscribed store that has received a notification. */
  async function listening(options: { readonly schema?: string; readonly connectionString?: string } = {}) {
    const schema = options.schema ?? schemas.name();
    const store = schemas.store({ pollInterval: NEVER, ...options, schema });
    const other = schemas.store({ schema });
    const woken = vi.fn();
    const end = store.subscribe?.(woken);
    onTestFinished(async () => {
      end?.();
      await Promise.all([store.close(), other.close()]);
    });
    await vi.waitFor(() => expect(woken).toHaveBeenCalled(), 20_000);
    return { schema, store, other, woken };
  }

  /** Makes the server end the sessions that listen on a schema's channel. */
  const endListeners = (schema: string) =>
    schemas.pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE $1", [
      `LISTEN "stayhook ${schema}"%`,
    ]);
  /** Returns the process ids of the sessions that listen. The last statement of such a session is `LISTEN`. */
  const listeners = async (schema: string) => {
    const sql = "SELECT pid FROM pg_stat_activity WHERE query LIKE $1";
    return (await schemas.pool.query(sql, [`LISTEN "stayhook ${schema}"%`])).rows.map(({ pid }) => pid);
  };

  test("wake the store again after the server has ended the listening session", async () => {
    const { schema, other, woken } = await listening();
    const [before] = await listeners(schema);
    expect(before).toBeDefined();
    woken.mockClear();
    await endListeners(schema);
    // After the reconnect, the store checks once on its own.
    await vi.waitFor(() => expect(woken).toHaveBeenCalled(), CALLED);
    const [after] = await listeners(schema);
    expect(after).not.toBe(before);
    woken.mockClear();
    await other.add(eventOf());
    await vi.waitFor(() => expect(woken).toHaveBeenCalled(), CALLED);
  });

  test("are found by polling if no notification arrives, as behind PgBouncer in transaction mode", async () => {
    const schema = schemas.name();
    const proxy = await postgresProxy(url);
    // Drop the notifications: messages of kind A with the name of the channel.
    proxy.drop(`stayhook ${schema}\0`, "A");
    const store = schemas.store({ schema, connectionString: proxy.connectionString, pollInterval: 50 });
    const other = schemas.store({ schema });
    const woken = vi.fn();
    const end = store.subscribe?.(woken);
    await sleep(500);
    woken.mockClear();
    await other.add(eventOf());
    await vi.waitFor(() => expect(woken.mock.calls.length).toBeGreaterThan(3), 20_000);
    expect(await store.claim(CLAIM)).toHaveLength(1);
    end?.();
    await Promise.all([store.close(), other.close()]);
    await proxy.close();
  });

  test("a listening connection ends with its last subscriber", async () => {
    const schema = schemas.name();
    const store = schemas.store({ schema });
    const ends = [store.subscribe?.(() => {}), store.subscribe?.(() => {})];
    await vi.waitFor(async () => expect(await listeners(schema)).toHaveLength(1), 20_000);
    ends[0]?.();
    await sleep(50);
    expect(await listeners(schema)).toHaveLength(1);
    ends[1]?.();
    await vi.waitFor(async () => expect(await listeners(schema)).toHaveLength(0), 20_000);
    await store.close();
  });
});
