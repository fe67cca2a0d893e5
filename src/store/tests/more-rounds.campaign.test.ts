/** The random tests of stores, with many more rounds. */
import '../administration/tests/drop-store.test.ts';
import './conformance/bounded-model.test.ts';
import './conformance/model.test.ts';
import './conformance/ordered-model.test.ts';
import './conformance/ordered-threads.test.ts';
import './creators.test.ts';
import './damaged-words.test.ts';
