/** The random tests of CHIME alone, with many more rounds. */
import './count.test.ts';
import './model.test.ts';
