require("node:test").test("other", () => {});
