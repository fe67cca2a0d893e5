/** With a round of every index. */
import './network.rest.test.ts';
