// Shows the page to a tab that may ask, and to any other what to do.
(() => {
"use strict";

const { h, render } = window.preact;
const shell = window.__HERMES_PGVECTOR_SHELL__;
const place = document.getElementById("page");

function showDoor() {
  render(
    h("section", { className: "sh-door" },
      h("h2", null, "Memory"),
      h("p", null, "This address was used already, or the server was started anew."),
      h("p", null, "Run ", h("code", null, "hermes-pgvector web"), " again and open the address it prints.")),
    place,
  );
}

window.addEventListener("hermes-pgvector-left", showDoor);
shell.admitted().then(
  (yes) => (yes ? render(h(shell.page()), place) : showDoor()),
  showDoor,
);
})();
