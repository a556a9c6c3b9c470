import js from "@eslint/js";
import globals from "globals";

const strict = {
  eqeqeq: ["error", "always", { null: "ignore" }],
  "no-implicit-globals": "error",
  "no-var": "error",
  "prefer-const": "error",
  // Text from the data is inserted as text; markup never.
  "no-restricted-properties": [
    "error",
    { property: "innerHTML", message: "Use textContent or the helpers of dom.js." },
    { property: "outerHTML", message: "Use textContent or the helpers of dom.js." },
    { property: "insertAdjacentHTML", message: "Use append()." },
  ],
  "no-eval": "error",
  "no-implied-eval": "error",
};

export default [
  js.configs.recommended,
  { files: ["src/dssl/explore/web/*.js"], languageOptions: { globals: globals.browser }, rules: strict },
  {
    files: ["src/dssl/report/templates/*.js"],
    languageOptions: { sourceType: "script", globals: { ...globals.browser, Plotly: "readonly" } },
    rules: strict,
  },
  { files: ["tests/js/*.js"], languageOptions: { globals: globals.node }, rules: strict },
];
