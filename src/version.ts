/** The version of this package. A test checks that package.json has the same version. */
export const version = "1.2.0";
