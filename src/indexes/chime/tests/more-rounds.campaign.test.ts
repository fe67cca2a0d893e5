/** The random tests of CHIME alone, and those of deaths, with many more rounds. */
import './count.test.ts';
import './dead-holder.test.ts';
import './model.test.ts';
