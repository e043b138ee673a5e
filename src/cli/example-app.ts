// Makes an app of its own from an example of this package.

import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { StayhookError } from "../errors.ts";
import { version } from "../version.ts";

type Packages = Readonly<Record<string, string>>;

/** The packages that an example needs besides stayhook. A folder has them in its own package.json. */
const packagesOfFiles: Readonly<Record<string, Packages>> = {
  "node-http": {},
  express: { express: "^5.3.0" },
  fastify: { fastify: "^5.12.8" },
  koa: { koa: "^3.3.0", "@koa/bodyparser": "^6.1.0" },
  hono: { hono: "^4.13.19", "@hono/node-server": "^2.1.8" },
};

/** The examples that start beside a sandbox with `npm install && npm start`. The first one is the default. */
export const exampleNames = [
  ...Object.keys(packagesOfFiles),
  "nestjs",
  "next",
  "availability-calendar",
  "approval-desk",
  "listing-mirror",
  "door-codes",
  "cleaning",
  "prometheus",
  "vendor",
] as const;

interface Manifest {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Packages;
  readonly devDependencies?: Packages;
}

/** The examples lie beside `dist` in the package, and beside `src` in the repository. */
function examplesFolder(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, "examples/README.md"))) {
    if (folder === dirname(folder)) throw new StayhookError("The package has no examples. Install it again.");
    folder = dirname(folder);
  }
  return join(folder, "examples");
}

/** Returns each example with the text that examples/README.md has about it. */
export function describedExamples(): { readonly name: string; readonly about: string }[] {
  const rows = readFileSync(join(examplesFolder(), "README.md"), "utf8").matchAll(
    /^\| \[([\w-]+)(?:\.ts)?\]\(.*?\) \| (.*) \|$/gm,
  );
  const abouts = new Map([...rows].map(([, name, about = ""]) => [name, plainText(about)]));
  return exampleNames.map((name) => ({ name, about: abouts.get(name) ?? "" }));
}

const plainText = (markdown: string): string =>
  markdown.replace(/\[(.*?)\]\(.*?\)/g, "$1").replaceAll("`", "");

/** Whether an app can be made in the folder: it does not exist, or is empty but for a repository of git. */
export function isFree(folder: string): boolean {
  return !existsSync(folder) || readdirSync(folder).every((name) => name === ".git");
}

const SECRET = "a-secret-for-the-sandbox";
const ADMIN_SECRET = "an-admin-secret-for-the-sandbox";

/** The command that plays the platform beside an app. Its quotes also work in cmd.exe. */
export const sandboxCommandOf = (example: string): string =>
  example === "vendor"
    ? "npx stayhook sandbox --accounts a17,b2"
    : `npx stayhook sandbox --to "http://127.0.0.1:3000/hooks?key=${SECRET}"`;

/**
 * Writes the app of an example into a folder, and returns the names of the files.
 *
 * @throws StayhookError (rejects) if the folder is not empty. No file is then written
 */
export async function makeApp(example: string, folder: string): Promise<string[]> {
  if (!isFree(folder))
    throw new StayhookError(
      `The folder ${resolve(folder)} is not empty, and init overwrites nothing. Name a new folder: stayhook init ${example} my-app.`,
    );
  await mkdir(folder, { recursive: true });
  const examples = examplesFolder();
  const isFile = example in packagesOfFiles;
  if (isFile) cpSync(join(examples, `${example}.ts`), join(folder, `${example}.ts`));
  else cpSync(join(examples, example), folder, { recursive: true, filter: isSource });
  const manifest = isFile ? manifestOf(example) : readManifest(join(folder, "package.json"));
  const test = example === "vendor" ? "vendor.test.ts" : "app.test.ts";
  const made: Readonly<Record<string, string>> = {
    "package.json": `${JSON.stringify(packageOf(folder, manifest), null, 2)}\n`,
    ".env.example": environmentOf(example),
    ".gitignore": "node_modules\n.env\n*.db*\ndist\n.next\n",
    Dockerfile: dockerfileOf(manifest.scripts.start!),
    ".dockerignore": ".git\nnode_modules\n.env\n*.db*\ndist\n.next\n",
    "README.md": readmeOf(example),
    "app.test.ts": readFileSync(join(examples, "init", test), "utf8"),
  };
  for (const [name, text] of Object.entries(made)) await writeFile(join(folder, name), text);
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(folder, join(parentPath, name)))
    .filter((file) => !/^\.git[\\/]/.test(file))
    .toSorted();
}

/** Whether a file belongs to an example. In the repository, an example that has run has further files. */
export const isSource = (path: string): boolean =>
  !/^(node_modules|dist|\.next|next-env\.d\.ts|.*\.db.*)$/.test(basename(path));

const manifestOf = (example: string): Manifest => ({
  scripts: { start: `node ${example}.ts` },
  dependencies: { ...packagesOfFiles[example], stayhook: `^${version}` },
});

const readManifest = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8"));

/** `.env.example` comes first, so that the app starts at once beside a sandbox. `.env` overrides it. */
const ENV_FILES = "--env-file=.env.example --env-file-if-exists=.env";

/** The command of a package's script `next`, as Node runs it. */
const NEXT = "node node_modules/next/dist/bin/next";

function packageOf(folder: string, { scripts, dependencies, devDependencies }: Manifest): object {
  const start = scripts.start!.replace("next start", `next build && ${NEXT} start`);
  return {
    name:
      basename(resolve(folder))
        .toLowerCase()
        .replace(/[^a-z0-9-]+/g, "-")
        .replace(/^-+/, "") || "app",
    private: true,
    type: "module",
    // Node runs TypeScript directly from 22.18 on.
    engines: { node: ">=22.18" },
    scripts: {
      ...scripts,
      start: start.replace(/\bnode (?=\S+(?:\.[jt]s|\/next)\b)/, `node ${ENV_FILES} `),
      test: "node --test app.test.ts",
    },
    dependencies,
    ...(devDependencies && { devDependencies }),
  };
}

/** @param start - the script of the example: commands that build, joined by `&&`, and the command that starts */
function dockerfileOf(start: string): string {
  const commands = start
    .replace("next start -H 127.0.0.1", `next build && ${NEXT} start -H 0.0.0.0`)
    .split(" && ");
  const builds = commands.slice(0, -1).map((command) => `RUN npx ${command}\n`);
  return `# Settings come from the environment: those of .env.example, with your own values.
FROM node:24-slim
WORKDIR /app
COPY package*.json ./
RUN npm install
COPY . .
${builds.join("")}# SQLite keeps further files beside events.db, so the volume is the folder, never the file.
RUN mkdir /data && chown node:node /data
VOLUME /data
ENV NODE_ENV=production HOST=0.0.0.0 EVENTS_DB=/data/events.db
USER node
EXPOSE 3000
# Node itself gets SIGTERM. "npm start" would end before the callbacks that run.
CMD ${JSON.stringify(commands.at(-1)!.split(" ")).replaceAll(",", ", ")}
`;
}

const environmentOf = (
  example: string,
): string => `# The app starts with these values, which are those of the sandbox. For your platform, put your own values into .env, which
# overrides this file. Keep .env out of git.
STAYHOOK_BASE_URL=http://127.0.0.1:4010
STAYHOOK_ACCESS_TOKEN=sandbox-token
WEBHOOK_SECRET=${SECRET}
EVENTS_DB=events.db
HOST=127.0.0.1
PORT=3000
${example === "vendor" ? `ADMIN_SECRET=${ADMIN_SECRET}\nACCOUNTS_KEY=${"5a".repeat(32)}\n` : ""}`;

const readmeOf = (example: string): string => {
  const isVendor = example === "vendor";
  const goLive = isVendor
    ? `put the URL of your platform, your \`PUBLIC_URL\`, and an output of \`openssl rand -hex 32\` for each of
\`WEBHOOK_SECRET\`, \`ADMIN_SECRET\` and \`ACCOUNTS_KEY\` into \`.env\`. Each account joins with a token of its own.`
    : `put the URL and the token of your platform and the output of \`openssl rand -hex 32\` as \`WEBHOOK_SECRET\` into
\`.env\`, and tell the platform your URL with \`npx stayhook config ensure\`.`;
  return `# ${example}

An app on [stayhook](https://www.npmjs.com/package/stayhook), made by \`npx stayhook init ${example}\`.

- \`npm install && npm start\` starts the app.
- \`${sandboxCommandOf(example)}\` plays the platform, in a second terminal. ${isVendor ? "Let an account join" : "Type `book`"}.
${isVendor ? `- \`${joinCommand}\` does that. Then type \`account a17\` and \`book\`.\n` : ""}- \`npm test\` starts the app beside a sandbox, and sends it a booking. \`docker build .\` makes an image.

To go live, ${goLive} Then replace each callback that only prints a line.
`;
};

/** Double quotes work in cmd.exe, too. */
const joinCommand = `curl http://127.0.0.1:3000/accounts -H "Authorization: Bearer ${ADMIN_SECRET}" -H "Content-Type: application/json" -d "{\\"account\\":\\"a17\\",\\"token\\":\\"sandbox-token-a17\\"}"`;
