import assert from "node:assert/strict";
import { test } from "node:test";

import { MOST_CLASSES, nth, parse, shade, shadeText } from "../../src/dssl/explore/web/colour.js";
import { cell, table } from "../../src/dssl/explore/web/csv.js";
import { count, number, percent, short } from "../../src/dssl/explore/web/dom.js";

test("count groups thousands", () => {
  assert.equal(count(1234567), "1,234,567");
});

test("percent shows one digit below one percent, and none for zero", () => {
  assert.deepEqual([0, 0.004, 0.0099, 0.01, 0.256, 1].map(percent), ["0%", "0.4%", "1.0%", "1%", "26%", "100%"]);
});

test("number keeps integers, rounds to four digits, and marks what is not finite", () => {
  assert.deepEqual([12345, 0.123456, 1234.56, NaN, -Infinity].map(number), ["12,345", "0.1235", "1235", "–", "–"]);
});

test("short cuts in the middle, at the length, and never splits a surrogate pair", () => {
  assert.equal(short("abcdef", 6), "abcdef");
  assert.equal(short("abcdefg", 6), "abc…fg");
  assert.equal(short("ab😀defg", 6), "ab…fg");
  assert.equal(short("abcde😀g", 6), "abc…g");
});

test("a CSV cell is quoted where needed", () => {
  assert.deepEqual(["a", 'a"b', "a,b", "a\nb", " a"].map(cell), ["a", '"a""b"', '"a,b"', '"a\nb"', '" a"']);
});

test("a CSV cell that a spreadsheet would run as a formula gets an apostrophe; numbers do not", () => {
  assert.deepEqual(["=1+1", "+x", "@x", "-x", "-1", "-1.5e-3"].map(cell), ["'=1+1", "'+x", "'@x", "'-x", "-1", "-1.5e-3"]); // prettier-ignore
});

test("the table of selected nodes has label, degree, factor and posterior, with empty cells for missing values", () => {
  const columns = {
    label: { values: [0, -1], names: ["x"] },
    factor: { values: [1, -1] },
    degree: { values: [2, 0] },
  };
  const data = {
    factors: 2,
    ids: ["a", "b"],
    nodeQ: Float32Array.from([0.25, 0.75, 0, 0]),
    column: (role) => columns[role],
  };
  assert.equal(table(data, [0, 1]), "id,label,degree,factor,q0,q1\r\na,x,2,1,0.25,0.75\r\nb,,0,,0,0\r\n");
});

test("colours of factors and classes stay distinct beyond the fixed lists", () => {
  const many = Array.from({ length: 40 }, (_, k) => nth(k));
  assert.equal(new Set(many).size, 40);
  assert.match(nth(MOST_CLASSES + 5), /^#[0-9a-f]{6}$/);
});

test("shade interpolates the scale and clamps outside of 0 to 1", () => {
  assert.deepEqual(shade(0), parse("#46327e"));
  assert.deepEqual(shade(1), parse("#fde725"));
  assert.deepEqual(shade(-3), shade(0));
  assert.equal(shadeText(7), "#fde725");
});
