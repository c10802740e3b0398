// Removals by memory files that wait for a decision, and memories that can be brought back.

const FILE_TROUBLES = { missing: "is missing", empty: "is empty", damaged: "is damaged", shorter: "lost much at once" };

const REMOVALS_A_PAGE = 50;

function RemovalsView() {
  const { params } = useAddress();
  return h(
    Page,
    { title: "Removals" },
    h(HeldRemovals, { params }),
    h(RemovedMemories, { params }),
  );
}

/** A page of one of the two lists, of which the address holds an offset each, by `name`. */
function RemovalPage({ path, name, params, empty, children }) {
  const offset = Number(params[name]) || 0;
  const asked = { theme: params.theme, since: params.since, limit: REMOVALS_A_PAGE, offset };
  const answer = useAnswer(path, asked);
  return h(Answered, { answer }, ({ rows, more }) =>
    h(
      Fragment,
      null,
      rows.length ? children(rows) : empty,
      h(Pager, { offset, limit: REMOVALS_A_PAGE, count: rows.length, more, view: "removals", params, name }),
    ),
  );
}

function HeldRemovals({ params }) {
  const empty = h(Empty, { title: "Nothing waits" }, h("p", null, "No removal needs a decision."));
  return h(
    "section",
    { className: "hpg-section", "aria-labelledby": "hpg-held" },
    h("h3", { id: "hpg-held" }, "Waiting for a decision"),
    h("p", { className: "hpg-muted" }, "A memory file lost these entries in a way that may be an accident. Undecided, they are kept."),
    h(RemovalPage, { path: "/removals", name: "offset", params, empty }, (rows) => h(HeldRows, { rows })),
  );
}

function HeldRows({ rows }) {
  const [chosen, setChosen] = useState([]);
  const picked = chosen.filter((ref) => rows.some((row) => row.ref === ref));
  return h(
    Fragment,
    null,
    h(ChooseBar, { rows, picked, setChosen }),
    h(
      "ul",
      { className: "hpg-results" },
      rows.map((row, at) => h(HeldRow, { key: `${row.ref} ${at}`, row, picked: picked.includes(row.ref), setChosen })),
    ),
  );
}

function ChooseBar({ rows, picked, setChosen }) {
  const all = picked.length === rows.length;
  return h(
    "div",
    { className: "hpg-actions hpg-choose" },
    h(CheckField, {
      label: picked.length ? `${picked.length} chosen` : "Choose all",
      value: all,
      onInput: () => setChosen(all ? [] : rows.map((row) => row.ref)),
    }),
    picked.length > 0 && h(Decide, { refs: picked, what: "chosen" }),
  );
}

function Decide({ refs, what }) {
  return h(
    Fragment,
    null,
    h(DialogButton, { label: `Keep ${what} …`, dialog: DecisionDialog, decision: "dismiss", refs }),
    h(DialogButton, {
      label: `Remove ${what} …`,
      tone: "danger",
      dialog: DecisionDialog,
      decision: "confirm",
      refs,
    }),
  );
}

function HeldRow({ row, picked, setChosen }) {
  const choose = (wanted) =>
    setChosen((before) => (wanted ? [...before, row.ref] : before.filter((ref) => ref !== row.ref)));
  return h(
    "li",
    { className: "hpg-result" },
    h(
      "div",
      { className: "hpg-row-head" },
      h(CheckField, { label: h("span", { className: "hpg-sr" }, `Choose ${row.ref}`), value: picked, onInput: choose }),
      h(Link, { view: "row", params: { ref: row.ref }, className: "hpg-ref" }, row.ref),
      h(ThemeName, { theme: row.theme, private: row.private }),
    ),
    h(StoredText, { text: row.content, lines: 4 }),
    h(
      "p",
      { className: "hpg-muted" },
      `${row.file} ${FILE_TROUBLES[row.why] || row.why} · held `,
      h(When, { at: row.held_at }),
      row.stays_from && " · asked about until ",
      row.stays_from && h(When, { at: row.stays_from, exact: true }),
    ),
    h("div", { className: "hpg-actions" }, h(Decide, { refs: [row.ref], what: row.ref })),
  );
}

function RemovedMemories({ params }) {
  const empty = h(
    Empty,
    { title: "Nothing was removed" },
    h("p", null, "What a memory file lets go of can be restored here for a while."),
  );
  return h(
    "section",
    { className: "hpg-section", "aria-labelledby": "hpg-removed" },
    h("h3", { id: "hpg-removed" }, "Can be brought back"),
    h(RemovalPage, { path: "/removed", name: "removed_offset", params, empty }, (rows) => h(RemovedRows, { rows })),
  );
}

function RemovedRows({ rows }) {
  return h(
    Fragment,
    null,
    rows.length > 1 &&
      h(DialogButton, { label: "Restore all shown …", dialog: RestoreDialog, refs: rows.map((row) => row.ref) }),
    h("ul", { className: "hpg-results" }, rows.map((row) => h(RemovedRow, { key: row.ref, row }))),
  );
}

function RemovedRow({ row }) {
  return h(
    "li",
    { className: "hpg-result" },
    h(
      "div",
      { className: "hpg-row-head" },
      h(Link, { view: "row", params: { ref: row.ref }, className: "hpg-ref" }, row.ref),
      h(ThemeName, { theme: row.theme, private: row.private }),
      h("span", { className: "hpg-muted" }, "removed ", h(When, { at: row.removed_at })),
      row.by && h("span", { className: "hpg-muted" }, "by ", h(StoredText, { text: row.by, inline: true })),
      h(DialogButton, { label: "Restore …", dialog: RestoreDialog, refs: [row.ref] }),
    ),
    h(StoredText, { text: row.content, lines: 4 }),
  );
}
