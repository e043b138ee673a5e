/** Secrets for the load generator, which signs with them, and the servers, which verify. */
export const secrets = {
  stripe: "whsec_stripe_of_the_benchmark",
  svix: `whsec_${Buffer.from("secret of the benchmark").toString("base64")}`,
  octokit: "secret of the benchmark",
  query: "secret-of-the-benchmark",
} as const;

/** The signature scheme of a peer's requests. */
export type Scheme = "stripe" | "svix" | "octokit";
