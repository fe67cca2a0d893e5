import { LONG_CHIME_SCOPES, testStops } from './support/chime-stops.ts';

for (const name of LONG_CHIME_SCOPES) testStops(name);
