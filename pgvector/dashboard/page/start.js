// The views by the name in the address; those with a label are in the navigation.
const VIEWS = {
  overview: { view: OverviewView, label: "Overview" },
  search: { view: SearchView, label: "Search" },
  themes: { view: ThemesView, label: "Themes" },
  theme: { view: ThemeView, within: "themes" },
  session: { view: SessionView, within: "themes" },
  agent: { view: AgentView, label: "Agent’s view" },
  history: { view: HistoryView, label: "History" },
  removals: { view: RemovalsView, label: "Removals" },
  settings: { view: SettingsView, label: "Settings" },
  row: { view: RowView, within: "search" },
};

function Navigation({ current }) {
  const chosen = VIEWS[current].within || current;
  return h(
    "nav",
    { className: "hpg-nav", "aria-label": "Memory" },
    Object.entries(VIEWS)
      .filter(([, { label }]) => label)
      .map(([name, { label }]) => h(Link, { key: name, view: name, "aria-current": name === chosen ? "page" : undefined }, label)),
  );
}

function inField(target) {
  return target instanceof Element && (target.closest("input, textarea, select, dialog") || target.isContentEditable);
}

/** "/" leads to the search box: the one on the page (`data-hpg-search`), or that of the search. */
function onKey(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || inField(event.target)) return;
  event.preventDefault();
  const box = document.querySelector(".hpg-page [data-hpg-search]");
  if (box) box.focus();
  else go("search");
}

function MemoryPage() {
  const { view, profile } = useAddress();
  const name = Object.hasOwn(VIEWS, view) ? view : "overview";
  const former = useRef(name);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    if (former.current === name) return;
    former.current = name;
    // Who does not see the page hears where they are now; a view that put the focus elsewhere keeps it.
    const title = document.getElementById("hpg-title");
    const inside = document.activeElement && document.activeElement.closest(".hpg-view");
    if (title && !inside) title.focus({ preventScroll: true });
  }, [name]);
  return h(
    "div",
    { className: "hpg-page" },
    h(Navigation, { current: name }),
    h(VIEWS[name].view, { key: `${name}#${profile}` }),
    h(Toasts, { profile }),
  );
}

window.__HERMES_PLUGINS__.register("pgvector", MemoryPage);
