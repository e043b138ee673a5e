/**
 * The names that the package can be imported by, and the file of each. `npx node tools/subpaths.ts` makes `exports` of
 * package.json and `paths` of tsconfig.json from them.
 */
export const subpaths = {
  index: "src/index.ts",
  console: "src/console/console.ts",
  fastify: "src/adapters/fastify.ts",
  koa: "src/adapters/koa.ts",
  lambda: "src/adapters/lambda.ts",
  mysql: "src/stores/mysql/index.ts",
  node: "src/adapters/node.ts",
  otel: "src/otel/otel.ts",
  postgres: "src/stores/postgres/index.ts",
  reconcile: "src/reconcile/reconciler.ts",
  redis: "src/stores/redis/index.ts",
  sqlite: "src/stores/sqlite/index.ts",
  stays: "src/stays/stays.ts",
  store: "src/stores/index.ts",
  "store/contract": "src/stores/contract/index.ts",
  testing: "src/testing/index.ts",
  "testing/msw": "src/testing/msw.ts",
  undici: "src/client/undici-fetch.ts",
};
