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
export const sandboxCommand = `npx stayhook sandbox --to 'http://127.0.0.1:3000/hooks?key=${SECRET}'`;

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
  const made: Readonly<Record<string, string>> = {
    "package.json": `${JSON.stringify(packageOf(folder, manifest), null, 2)}\n`,
    ".env.example": environment,
    ".gitignore": "node_modules\n.env\n*.db*\ndist\n.next\n",
    "README.md": readmeOf(example),
    "app.test.ts": readFileSync(join(examples, "init/app.test.ts"), "utf8"),
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

function packageOf(folder: string, { scripts, dependencies, devDependencies }: Manifest): object {
  const start = scripts.start!.replace(
    "next start",
    "next build && node node_modules/next/dist/bin/next start",
  );
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

const environment = `# The app starts with these values, which are those of the sandbox. For your platform, put your own values into .env, which
# overrides this file. Keep .env out of git.
STAYHOOK_BASE_URL=http://127.0.0.1:4010
STAYHOOK_ACCESS_TOKEN=sandbox-token
WEBHOOK_SECRET=${SECRET}
EVENTS_DB=events.db
PORT=3000
`;

const readmeOf = (example: string): string => `# ${example}

An app on [stayhook](https://www.npmjs.com/package/stayhook), made by \`npx stayhook init ${example}\`.

- \`npm install && npm start\` starts the app.
- \`${sandboxCommand}\` plays the platform, in a second terminal. Type \`book\`.
- \`npm test\` starts the app beside a sandbox, and sends it a booking.

To go live, put the URL and the token of your platform and the output of \`openssl rand -hex 32\` as \`WEBHOOK_SECRET\` into
\`.env\`, and tell the platform your URL with \`npx stayhook config ensure\`. Then replace each callback that only prints a line.
`;
