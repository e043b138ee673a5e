import type { DefaultTheme } from "vitepress";

type Item = DefaultTheme.SidebarItem;

const group = (text: string, items: readonly (readonly [text: string, link: string])[]): Item => ({
  text,
  collapsed: false,
  items: items.map(([text, link]) => ({ text, link })),
});

export const sidebar: Item[] = [
  group("Start", [
    ["Quick start", "/quick-start"],
    ["How it works", "/how-it-works"],
    ["Examples", "/examples/"],
    ["Comparison", "/comparison"],
  ]),
  group("Guides", [
    ["Block nights", "/guides/block-nights"],
    ["At a time: door codes, mails, cleanings", "/guides/at-a-time"],
    ["Mirror listings", "/guides/mirror-listings"],
    ["Many accounts", "/guides/many-accounts"],
    ["ORMs: drizzle, Kysely, knex, Prisma", "/guides/orms"],
  ]),
  group("Your stack", [
    ["Frameworks", "/frameworks/"],
    ["Full-stack frameworks", "/frameworks/full-stack"],
    ["Runtimes and serverless", "/runtimes"],
    ["Choose and change the store", "/stores/"],
    ["SQLite", "/stores/sqlite"],
    ["PostgreSQL", "/stores/postgresql"],
    ["MySQL, MariaDB", "/stores/mysql"],
    ["Redis", "/stores/redis"],
    ["Custom store", "/custom-store"],
    ["Queue engines", "/engines"],
  ]),
  group("Use it", [
    ["Events", "/events"],
    ["Handler and types", "/handler"],
    ["Client", "/client"],
    ["Errors", "/errors"],
    ["Testing", "/testing"],
  ]),
  group("In production", [
    ["Production and containers", "/production"],
    ["Recover from an outage", "/recovering"],
    ["Security", "/security"],
    ["Reconciler", "/reconcile"],
    ["Console", "/console"],
    ["Command line", "/cli"],
    ["Telemetry and logging", "/telemetry"],
  ]),
  group("Reference", [
    ["API", "/reference/"],
    ["What 2.x promises", "/promises"],
    ["Changelog", "/project/changelog"],
  ]),
];
