const { test, describe, it } = require("node:test");
const assert = require("node:assert");

test("passes", () => {});
test("fails", () => { assert.equal(1, 2); });
test("is skipped", { skip: true }, () => {});
describe("group", () => { it("passes inside", () => {}); });
