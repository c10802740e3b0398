// What the forms of the views share.

const THEMES_OFFERED = 20;

/**
 * Return what is typed into a form whose answers stand in the address of a view, and what its fields are given.
 *
 * It follows where the address leads. Choices take effect at once, unless `wait`, texts when the form is submitted.
 */
function useForm(view, names, params) {
  const now = Object.fromEntries(names.map((name) => [name, params[name] || ""]));
  const [asked, setAsked] = useState(now);
  useEffect(() => setAsked(now), [JSON.stringify(now)]);
  const set = (name, value) => setAsked((before) => ({ ...before, [name]: value }));
  const send = (more) => go(view, filledIn({ ...asked, ...more }));
  return {
    asked,
    submit: (event) => {
      event.preventDefault();
      send({});
    },
    text: (name) => ({ value: asked[name], onInput: (value) => set(name, value) }),
    choice: (name, choices, { wait = false } = {}) => ({
      value: asked[name],
      choices,
      onInput: (value) => {
        set(name, value);
        if (!wait) send({ [name]: value });
      },
    }),
  };
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
