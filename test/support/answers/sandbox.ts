import { createSandboxWith, type Sandbox } from "../../../src/sandbox/sandbox.ts";
import type { SandboxOptions } from "../../../src/testing/index.ts";
import {
  createProfile,
  type SandboxProfile,
  type SandboxProfileControl,
  type SandboxProfileName,
} from "./profiles.ts";
import { render } from "./render.ts";

/** A sandbox whose answers have a form of their own. */
export type ProfiledSandbox = Sandbox & { readonly profile: SandboxProfileControl };

/** Makes a sandbox that answers in the forms of a profile. */
export function createProfiledSandbox({
  profile: initial = "default",
  ...options
}: SandboxOptions & {
  readonly profile?: SandboxProfileName | SandboxProfile | undefined;
} = {}): ProfiledSandbox {
  const seed = options.seed ?? 1;
  const profile = createProfile(seed, initial);
  const sandbox = createSandboxWith({ ...options, seed }, (response) => render(response, profile.draw()));
  return Object.assign(sandbox, { profile });
}
