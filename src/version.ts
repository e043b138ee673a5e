/** This package's version. A test holds it equal to package.json's. */
export const version = "0.2.0";
