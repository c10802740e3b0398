// What the forms of the views share.

const THEMES_OFFERED = 20;

/** Return [asked, set] of a form whose answers stand in the address: it follows where the address leads. */
function useAsked(names, params) {
  const now = Object.fromEntries(names.map((name) => [name, params[name] || ""]));
  const [asked, setAsked] = useState(now);
  useEffect(() => setAsked(now), [JSON.stringify(now)]);
  return [asked, (some) => setAsked((before) => ({ ...before, ...some }))];
}

/** Return those of a form's answers that say something, for the address. */
function filledIn(asked) {
  return Object.fromEntries(
    Object.entries(asked)
      .map(([name, value]) => [name, value.trim()])
      .filter(([, value]) => value),
  );
}

/** The name of a theme, with those that fit what was typed. */
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
