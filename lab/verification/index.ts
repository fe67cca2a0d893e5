export { CANARIES } from './canaries/index.ts';
export { type Canary, isIn } from './canary.ts';
export { QUICK_SCOPES, type Scope, scopes } from './exhaustive/scope.ts';
export { type Coverage, searchScope } from './exhaustive/search.ts';
export { POLICIES, type PolicyName } from './schedules/policies.ts';
export { type RandomCoverage, type RandomSearch, searchSeeds } from './schedules/random-search.ts';
export { commandFor, shrink } from './schedules/shrink.ts';
export { SUBJECTS } from './subjects/index.ts';
export type { Subject } from './subjects/subject.ts';
