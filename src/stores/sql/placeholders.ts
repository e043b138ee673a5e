import type { SqlDialect } from "./driver.ts";

/** Replaces each `?` with the dialect's placeholder. @param before - the number of the parameters before the first `?` */
export function prepared(dialect: Pick<SqlDialect, "placeholder">, sql: string, before = 0): string {
  if (dialect.placeholder === undefined) return sql;
  let parameters = before;
  return sql.replaceAll("?", () => dialect.placeholder!(++parameters));
}
