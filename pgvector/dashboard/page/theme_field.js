// The name of a theme, with those that fit what was typed.

const THEMES_OFFERED = 20;

function ThemeField({ label, value, ...rest }) {
  const id = useId();
  const typed = useSettled(value || "", 250);
  const [near, setNear] = useState(false); // nothing is asked before somebody is there
  const { data } = useAnswer(near ? "/themes" : null, { search: typed, limit: THEMES_OFFERED });
  const names = ((data && data.rows) || []).map((row) => row.theme);
  return h(
    "div",
    { onFocusCapture: () => setNear(true) },
    h(TextField, { label: label || "Theme", value, list: id, autoComplete: "off", spellCheck: false, ...rest }),
    h("datalist", { id }, names.map((name) => h("option", { key: name, value: name }))),
  );
}
