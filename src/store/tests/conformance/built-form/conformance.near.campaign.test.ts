// On what the package ships, where operations are plain functions: see scripts/test.ts.
import '../../../../../scripts/fresh-build.mjs';
import '../conformance.near.campaign.test.ts';
