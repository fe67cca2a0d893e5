/** With so many rounds that rare outcomes have time to appear. */
import './selftest.test.ts';
