// Made of the files in ../page by scripts/make_dashboard_page.py.
(() => {
"use strict";

const SDK = window.__HERMES_PLUGIN_SDK__;
const { React } = SDK;
const h = React.createElement;

function MemoryPage() {
  return h("div", { className: "hpg-page" }, "Memory");
}

window.__HERMES_PLUGINS__.register("pgvector", MemoryPage);
})();
