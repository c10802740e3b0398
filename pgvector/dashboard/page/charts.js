// Charts: drawn for those who see them, a table for those who do not.
const CHART_HIGH = 100;

function dayText(name) {
  const date = new Date(name.length === 7 ? `${name}-01T00:00:00Z` : `${name}T00:00:00Z`);
  const shown = name.length === 7 ? { month: "short", year: "numeric" } : { day: "numeric", month: "short" };
  return date.toLocaleDateString(undefined, { ...shown, timeZone: "UTC" });
}

/** Bars of `rows` ({day or month, and a number for each of `series`: {key, label}}), one upon the other. */
function Bars({ rows, series, label }) {
  const named = rows.map((row) => ({ row, name: row.day || row.month, sum: series.reduce((sum, { key }) => sum + row[key], 0) }));
  const most = Math.max(1, ...named.map(({ sum }) => sum));
  if (!rows.length) return null;
  return h(
    "figure",
    null,
    h("figcaption", { className: "hpg-legend" }, series.map(({ key, label: says }, at) => h("span", { key, className: `hpg-series-${at}` }, says))),
    h(
      "div",
      { className: "hpg-plot", "aria-hidden": "true" },
      h("span", { className: "hpg-most" }, numberText(most)),
      h(
        "svg",
        { viewBox: `0 0 ${rows.length * 10} ${CHART_HIGH}`, preserveAspectRatio: "none" },
        named.map((each, at) => h(Bar, { key: each.name, at, series, most, ...each })),
      ),
      h("div", { className: "hpg-axis" }, h("span", null, dayText(named[0].name)), named.length > 1 && h("span", null, dayText(named[named.length - 1].name))),
    ),
    h("div", { className: "hpg-sr" }, h(ChartTable, { named, series, label })),
  );
}

function Bar({ at, row, name, series, most }) {
  let top = CHART_HIGH;
  const says = `${dayText(name)}: ${series.map(({ key, label }) => `${numberText(row[key])} ${label.toLowerCase()}`).join(", ")}`;
  return h(
    "g",
    null,
    h("title", null, says),
    // The whole height answers the pointer, also where there is little to hit.
    h("rect", { x: at * 10, y: 0, width: 10, height: CHART_HIGH, className: "hpg-bar-back" }),
    series.map(({ key }, which) => {
      const high = (row[key] / most) * CHART_HIGH;
      top -= high;
      return h("rect", { key, x: at * 10 + 1, y: top, width: 8, height: high, className: `hpg-bar-${which}` });
    }),
  );
}

function ChartTable({ named, series, label }) {
  const filled = named.filter(({ sum }) => sum > 0);
  return h(
    "table",
    null,
    h("caption", null, filled.length ? label : `${label}: nothing yet`),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "When"), series.map(({ key, label: says }) => h("th", { key, scope: "col" }, says)))),
    h("tbody", null, filled.map(({ row, name }) => h("tr", { key: name }, h("th", { scope: "row" }, dayText(name)), series.map(({ key }) => h("td", { key }, numberText(row[key])))))),
  );
}

/** A table whose rows become cards on a phone, unless it is `narrow`. `columns` are {label, cell(row), number, wide}. */
function Table({ label, columns, rows, keyOf, narrow }) {
  return h(
    "table",
    { className: cx("hpg-table", !narrow && "hpg-table-cards") },
    h("caption", { className: "hpg-sr" }, label),
    h("thead", null, h("tr", null, columns.map((column) => h("th", { key: column.label, scope: "col", className: cx(column.number && "hpg-number") }, column.label)))),
    h(
      "tbody",
      null,
      rows.map((row, at) =>
        h(
          "tr",
          { key: keyOf ? keyOf(row) : at },
          columns.map((column) => h("td", { key: column.label, "data-label": column.label, className: cx(column.number && "hpg-number", column.wide && "hpg-wide") }, column.cell(row))),
        ),
      ),
    ),
  );
}
