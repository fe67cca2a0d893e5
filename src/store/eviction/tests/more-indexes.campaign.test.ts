/** The same with every index. */
import './doorbells.rest.test.ts';
import './evicting-clients.rest.test.ts';
