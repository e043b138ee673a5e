/** The version of this package. A test checks that package.json has the same version. */
export const version = "2.0.0";
