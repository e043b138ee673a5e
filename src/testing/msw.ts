/** The platform as msw handlers. */
export type SandboxHandlers = readonly unknown[];
