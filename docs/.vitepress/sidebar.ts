import type { DefaultTheme } from "vitepress";

type Item = DefaultTheme.SidebarItem;

const group = (text: string, items: readonly (readonly [text: string, link: string])[]): Item => ({
  text,
  collapsed: false,
  items: items.map(([text, link]) => ({ text, link })),
});

const folded = (text: string, link: string, items: readonly (readonly [string, string])[]): Item => ({
  text,
  link,
  collapsed: true,
  items: items.map(([text, page]) => ({ text, link: link + page })),
});

export const sidebar: Item[] = [
  group("Start", [
    ["Quick start", "/quick-start"],
    ["From a hand-written handler", "/from-your-own-handler"],
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
    ["iCalendar feed", "/guides/ical-feed"],
  ]),
  {
    text: "Your stack",
    items: [
      folded("Frameworks", "/frameworks/", [
        ["node:http", "node-http"],
        ["Express, Connect", "express"],
        ["Fastify", "fastify"],
        ["Koa", "koa"],
        ["Hono", "hono"],
        ["NestJS", "nestjs"],
        ["Next.js", "nextjs"],
        ["Nuxt, h3", "nuxt"],
        ["SvelteKit", "sveltekit"],
        ["React Router, Remix", "react-router"],
        ["Astro", "astro"],
      ]),
      folded("Runtimes", "/runtimes/", [
        ["Bun", "bun"],
        ["Deno", "deno"],
        ["Cloudflare Workers", "cloudflare-workers"],
        ["AWS Lambda", "aws-lambda"],
        ["Azure Functions", "azure-functions"],
      ]),
      folded("Stores", "/stores/", [
        ["SQLite", "sqlite"],
        ["PostgreSQL", "postgresql"],
        ["MySQL, MariaDB", "mysql"],
        ["Redis", "redis"],
        ["Memory", "memory"],
      ]),
      { text: "Change the store", link: "/change-the-store" },
      { text: "Custom store", link: "/custom-store" },
      folded("Queue engines", "/engines/", [
        ["BullMQ", "bullmq"],
        ["pg-boss", "pg-boss"],
        ["NATS JetStream", "nats-jetstream"],
        ["SQS FIFO", "sqs"],
      ]),
    ],
  },
  group("Use it", [
    ["Events", "/events"],
    ["Handler", "/handler"],
    ["Types", "/types"],
    ["Client", "/client"],
    ["Behind a proxy", "/proxy"],
  ]),
  group("In production", [
    ["Production", "/production"],
    ["Containers and serverless", "/containers"],
    ["Security", "/security"],
    ["Reconciler", "/reconcile"],
    ["Console", "/console"],
    ["Command line", "/cli"],
    ["Telemetry", "/telemetry"],
    ["Logging", "/logging"],
    ["Deleted records", "/gone"],
    ["Recover from an outage", "/recovering"],
    ["Testing", "/testing"],
  ]),
  {
    text: "Reference",
    items: [
      { text: "API", link: "/reference/" },
      { text: "Errors", link: "/errors/" },
      { text: "Fields", link: "/fields" },
      { text: "Benchmarks", link: "/benchmarks" },
      { text: "Soak", link: "/soak" },
      { text: "Size", link: "/size" },
      { text: "Upgrading and support", link: "/upgrading" },
      { text: "Changelog", link: "/project/changelog" },
    ],
  },
];
