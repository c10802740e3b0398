// Removals by memory files that wait for a decision, and memories that can be brought back.

const FILE_TROUBLES = { missing: "is missing", empty: "is empty", damaged: "is damaged", shorter: "lost much at once" };

function RemovalsView() {
  const { params } = useAddress();
  return h(
    Page,
    { title: "Removals" },
    h(HeldRemovals, { params }),
    h(RemovedMemories, { params }),
  );
}

function HeldRemovals({ params }) {
  const limit = 50;
  const offset = Number(params.offset) || 0;
  const { data, error, slow, again } = useAnswer("/removals", { theme: params.theme, limit, offset });
  const [chosen, setChosen] = useState([]);
  const rows = (data && data.rows) || [];
  const picked = chosen.filter((ref) => rows.some((row) => row.ref === ref));
  return h(
    "section",
    { className: "hpg-section", "aria-labelledby": "hpg-held" },
    h("h3", { id: "hpg-held" }, "Waiting for a decision"),
    h("p", { className: "hpg-muted" }, "A memory file lost these entries in a way that may be an accident. Undecided, they are kept."),
    error && h(Problem, { error, again }),
    !data && !error && h(Loading, { when: slow }),
    data && !rows.length && h(Empty, { title: "Nothing waits" }, h("p", null, "No removal needs a decision.")),
    rows.length > 0 && h(ChooseBar, { rows, picked, setChosen }),
    h(
      "ul",
      { className: "hpg-results" },
      rows.map((row, at) => h(HeldRow, { key: `${row.ref} ${at}`, row, picked: picked.includes(row.ref), setChosen })),
    ),
    data && h(Pager, { offset, limit, count: rows.length, more: data.more, view: "removals", params: { theme: params.theme } }),
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
      h(ThemeName, { theme: row.theme }),
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
  const { data, error, slow, again } = useAnswer("/removed", { theme: params.theme, since: params.since });
  const rows = (data && data.rows) || [];
  return h(
    "section",
    { className: "hpg-section", "aria-labelledby": "hpg-removed" },
    h("h3", { id: "hpg-removed" }, "Can be brought back"),
    error && h(Problem, { error, again }),
    !data && !error && h(Loading, { when: slow }),
    data &&
      !rows.length &&
      h(Empty, { title: "Nothing was removed" }, h("p", null, "What a memory file lets go of can be restored here for a while.")),
    rows.length > 1 &&
      h(DialogButton, { label: "Restore all shown …", dialog: RestoreDialog, refs: rows.map((row) => row.ref) }),
    h("ul", { className: "hpg-results" }, rows.map((row) => h(RemovedRow, { key: row.ref, row }))),
    data && data.more && h("p", { className: "hpg-muted" }, "More was removed before these."),
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
      h(ThemeName, { theme: row.theme }),
      h("span", { className: "hpg-muted" }, "removed ", h(When, { at: row.removed_at })),
      row.by && h("span", { className: "hpg-muted" }, "by ", h(StoredText, { text: row.by, inline: true })),
      h(DialogButton, { label: "Restore …", dialog: RestoreDialog, refs: [row.ref] }),
    ),
    h(StoredText, { text: row.content, lines: 4 }),
  );
}
