import type { Cluster, Redis } from "ioredis";
import { StayhookError } from "../../errors.ts";

/** A client of the user's. */
export type RedisClient = Redis | Cluster;

type Module = typeof import("ioredis");

/**
 * The optional peer, at its first use.
 *
 * @throws {@link StayhookError} where it is not installed
 */
export async function loadRedis(
  load: () => Promise<unknown> = () => import("ioredis"),
): Promise<typeof Redis> {
  try {
    const module = (await load()) as Module & { readonly default?: Module };
    return module.Redis ?? module.default?.Redis;
  } catch (cause) {
    const code = String((cause as NodeJS.ErrnoException | undefined)?.code);
    if (!code.endsWith("MODULE_NOT_FOUND")) throw cause;
    throw new StayhookError('redisStore needs the package "ioredis". Install it: npm install ioredis', {
      cause,
    });
  }
}
