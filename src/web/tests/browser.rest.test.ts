import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { type Browser, chromium, type Page } from 'playwright-core';
import { INDEX_KINDS } from '../../indexes/kinds.ts';
import type { IndexName, Store } from '../../store/api.ts';
import { openSync } from '../../store/open.ts';
import { serveWeb, type WebServer } from '../server.ts';

const CHROMIUM = '/usr/bin/chromium';
const isMissing = !existsSync(CHROMIUM) && !process.env.CI;
const RECORDS = 130;
const FULLEST = 'sephash';
/** Scripts of the browser are text here, since the types of this project know no documents. */
const FIRST_CANVAS = `
  var canvas = document.querySelector('#structure .part canvas');
  var context = canvas.getContext('2d');`;
const STORES = INDEX_KINDS.map(({ manifest }) => manifest.name as IndexName);

describe('the page in a browser', { skip: isMissing && `there is no ${CHROMIUM}` }, () => {
  const stores: Store[] = [];
  const complaints: string[] = [];
  let browser: Browser;
  let server: WebServer;
  let page: Page;

  before(async () => {
    stores.push(openSync('memory:', { size: 128 * 2 ** 20, store: 'race', index: 'race' }));
    for (const index of STORES.slice(1)) {
      stores.push(openSync(stores[0].handle, { store: index, index, create: true }));
    }
    for (const store of stores) {
      for (let i = 0; i < RECORDS; i++) store.set(`key ${i}`, `<i>value</i> ${i}`);
    }
    const fullest = stores[STORES.indexOf(FULLEST)];
    for (let i = 0; i < 3000; i++) fullest.set(`more ${i}`, 'v'.repeat(100));
    server = await serveWeb({ place: stores[0].handle, url: 'memory:', port: 0, everyMs: 200 });
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
    page = await browser.newPage({ viewport: { width: 1200, height: 900 }, colorScheme: 'light' });
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (asked) => {
      if (!asked.url().startsWith(server.url)) complaints.push(`asked for ${asked.url()}`);
    });
    await page.goto(server.url);
  });

  after(async () => {
    await browser?.close();
    await server?.close();
    for (const store of stores) store.close();
    assert.deepEqual(complaints, [], 'errors, or requests to elsewhere');
  });

  test('the views begin at the fullest store', async () => {
    for (const view of ['keys', 'structure']) {
      const chosen = page.locator(`#${view} option:checked`);
      await chosen.filter({ hasText: FULLEST }).waitFor({ state: 'attached' });
    }
  });

  test('nothing is wider than a telephone', async () => {
    await page.setViewportSize({ width: 390, height: 800 });
    for (const view of ['Keys', 'Structure', 'Overview']) {
      await page.getByRole('tab', { name: view }).click();
      await page.locator(`#${view.toLowerCase()}`).waitFor();
      const widest = await page.evaluate<number>('document.documentElement.scrollWidth');
      assert.equal(widest, 390, view);
    }
    await page.setViewportSize({ width: 1200, height: 900 });
  });

  test('the swatches of a legend differ', async () => {
    const swatches = await page.evaluate<string[]>(`
      Array.from(document.querySelectorAll('.summary.memory i'),
        (swatch) => getComputedStyle(swatch).backgroundColor)`);
    assert.equal(new Set(swatches).size, 6, swatches.join());
    const markers = await page.evaluate<string[][]>(`
      Array.from(document.querySelectorAll('.u-legend'), (legend) =>
        Array.from(legend.querySelectorAll('.u-marker'), (marker) => marker.style.cssText)
          .filter((style) => style !== ''))`);
    for (const one of markers) assert.equal(new Set(one).size, one.length, one.join());
  });

  test('figures move when the stores are used', async () => {
    const reads = page.locator('.tile', { hasText: 'Reads' }).locator('dd').first();
    const writing = setInterval(() => {
      for (const store of stores) for (let i = 0; i < 50; i++) store.get(`key ${i}`);
    }, 20);
    await reads.filter({ hasText: /^[1-9][\d,]*\/s$/ }).waitFor();
    clearInterval(writing);
    await page.locator('.tile dd', { hasText: '0/s' }).first().waitFor();
    assert.equal(await page.locator('.uplot canvas').count(), 4);
    for (const name of STORES) await page.locator('td', { hasText: name }).first().waitFor();
  });

  test('memory is a bar of parts, and a table of blocks by store and size', async () => {
    const card = page.locator('#overview .card', { has: page.locator('svg.memory') });
    await card.waitFor();
    const widths = await page.evaluate<number[]>(`
      Array.from(document.querySelectorAll('svg.memory rect'),
        (rect) => rect.width.baseVal.value)`);
    const all = widths.reduce((sum, width) => sum + width, 0);
    assert.ok(Math.abs(all - 1000) < 0.01, `${widths}`);
    assert.equal(await card.locator('.summary b').count(), 6);
    for (const name of STORES) await card.locator('td', { hasText: name }).first().waitFor();
    const cells = await card.locator('tbody tr').first().locator('td').allTextContents();
    assert.deepEqual([cells[0], cells[1]], ['chime', 'all']);
  });

  test('keys are paged forward and back, and a value is text, never markup', async () => {
    await page.getByRole('tab', { name: 'Keys' }).click();
    await page.locator('#keys select').selectOption('chime');
    const first = page.locator('#keys td.key').first();
    await first.filter({ hasText: /^key 0$/ }).waitFor();
    assert.equal(await page.locator('#keys td.value').first().textContent(), '<i>value</i> 0');
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('Page 2, 50 records').waitFor();
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.getByText('Page 1, 50 records').waitFor();
    await page.getByLabel('Begin at key').fill('key 99');
    await page.keyboard.press('Enter');
    await first.filter({ hasText: /^key 99$/ }).waitFor();
    await first.getByRole('button').press('Enter');
    await page.locator('#keys pre', { hasText: '<i>value</i> 99' }).waitFor();
  });

  for (const index of ['chime', 'race']) {
    test(`a prefix leaves the keys of ${index} that begin with it`, async () => {
      await page.locator('#keys select').selectOption(index);
      await page.getByLabel('Prefix').fill('key 12');
      await page.getByLabel(/key$/).fill('');
      await page.getByRole('button', { name: 'Show' }).click();
      await page.getByText('Page 1, 11 records').waitFor();
      const keys = await page.locator('#keys td.key').allTextContents();
      const wanted = Array.from({ length: 10 }, (_, i) => `key 12${i}`);
      assert.deepEqual(keys.sort(), ['key 12', ...wanted]);
      await page.getByLabel('Prefix').fill('nothing');
      await page.keyboard.press('Enter');
      await page.getByText('There is no record here.').waitFor();
    });
  }

  test('arrows move between the views', async () => {
    await page.getByRole('tab', { name: 'Keys' }).focus();
    await page.keyboard.press('ArrowLeft');
    const chosen = page.getByRole('tab', { selected: true });
    assert.equal(await chosen.textContent(), 'Structure');
    assert.ok(page.url().endsWith('#structure'));
  });

  for (const index of STORES) {
    test(`the picture of ${index} has parts with coloured cells`, async () => {
      await page.locator('#structure select').selectOption(index);
      await page.locator(`#structure [data-index=${index}] .part canvas`).first().waitFor();
      const colours = await page.evaluate<number>(`${FIRST_CANVAS}
        var { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        new Set(new Uint32Array(data.buffer)).size`);
      assert.ok(colours >= 2, `${colours} colours`);
      const isTree = index === 'chime';
      const isDirectory = ['race', 'sephash', 'hopscotch'].includes(index);
      const boxes = await page.locator('#structure svg rect').count();
      assert.ok(isTree || isDirectory ? boxes >= 2 : boxes === 0, `${boxes} boxes`);
    });
  }

  test('the colours follow the scheme, in the style sheet and in canvases', async () => {
    const back = 'getComputedStyle(document.body).backgroundColor';
    const look = () =>
      page.evaluate<string[]>(`${FIRST_CANVAS}
        [${back}, String(context.getImageData(2, 2, 1, 1).data)]`);
    const light = await look();
    await page.emulateMedia({ colorScheme: 'dark' });
    let dark = await look();
    // Canvases are drawn anew when the page hears of it.
    for (let i = 0; i < 20 && dark[1] === light[1]; i++) dark = await look();
    assert.notEqual(dark[0], light[0]);
    assert.notEqual(dark[1], light[1]);
  });
});
