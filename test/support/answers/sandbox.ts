import { createSandboxWith, type Sandbox } from "../../../src/sandbox/sandbox.ts";
import type { SandboxOptions } from "../../../src/testing/index.ts";
import { Profile } from "./profiles.ts";
import { render } from "./render.ts";

/** Makes a sandbox whose answers have the forms of a profile. */
export function createProfiledSandbox({
  profile: initial = "default",
  ...options
}: SandboxOptions & {
  readonly profile?: ConstructorParameters<typeof Profile>[1];
} = {}): Sandbox & { readonly profile: Profile } {
  const seed = options.seed ?? 1;
  const profile = new Profile(seed, initial);
  const sandbox = createSandboxWith({ ...options, seed }, (response) => render(response, profile.draw()));
  return Object.assign(sandbox, { profile });
}
