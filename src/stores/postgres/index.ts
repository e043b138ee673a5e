/** Options of {@link postgresStore}. */
export interface PostgresStoreOptions {
  readonly schema?: string | undefined;
}
