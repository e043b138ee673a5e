/** Options of {@link redisStore}. */
export interface RedisStoreOptions {
  readonly prefix?: string | undefined;
}
