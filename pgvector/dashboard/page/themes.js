// All themes, by their names.
const THEMES_A_PAGE = 50;
const COUNTED_MOST = 50000; // the server counts no further

function ThemesView() {
  const { params } = useAddress();
  const offset = Number(params.offset) || 0;
  const answer = useAnswer("/themes", { search: params.search, limit: THEMES_A_PAGE, offset });
  return h(
    Page,
    { title: "Themes" },
    h(ThemeSearch, { search: params.search || "" }),
    h(Answered, { answer }, ({ rows, total, more }) =>
      rows.length
        ? h(
            Fragment,
            null,
            h("p", { className: "hpg-muted", role: "status" }, countText(total, "theme")),
            h(ThemeTable, { rows }),
            h(Pager, { offset, limit: THEMES_A_PAGE, count: rows.length, more, total, view: "themes", params: { search: params.search } }),
          )
        : h(NoThemes, { search: params.search }),
    ),
  );
}

function ThemeSearch({ search }) {
  const [text, setText] = useState(search);
  const settled = useSettled(text, 250);
  useEffect(() => {
    if (settled !== search) go("themes", { search: settled }, { replace: true });
  }, [settled]);
  return h("search", { className: "hpg-narrow" }, h(TextField, { label: "Themes with this in their name", type: "search", value: text, onInput: setText, "data-hpg-search": "" }));
}

function NoThemes({ search }) {
  if (search) return h(Empty, { title: "No theme has that in its name" }, h("p", null, h(Link, { view: "themes" }, "Show all themes")));
  return h(
    Empty,
    { title: "There are no themes yet" },
    h("p", null, "A theme is what one agent, chat or project remembers. The first one is made by the first message to an agent, or by a memory that you add."),
    h(AddButton, {}),
  );
}

function upTo(count) {
  return count >= COUNTED_MOST ? `${numberText(COUNTED_MOST)}+` : numberText(count);
}

function ThemeTable({ rows }) {
  const columns = [
    { label: "Theme", cell: (each) => h(ThemeName, each), wide: true },
    { label: "Memories", cell: (each) => upTo(each.memories), number: true },
    { label: "Turns", cell: (each) => upTo(each.turns), number: true },
    { label: "Last written", cell: (each) => h(When, { at: each.last_at }) },
  ];
  return h(Table, { label: "Themes", columns, rows, keyOf: (each) => each.theme });
}
