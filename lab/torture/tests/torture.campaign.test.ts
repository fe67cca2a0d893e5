/** With a round of every index. */
import './torture.rest.test.ts';
