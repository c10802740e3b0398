// What happened to memories, of one theme or of all.

const ACTION_CHOICES = [["", "Everything"], ...ACTIONS.map((name) => [name, name])];

function HistoryView() {
  const { params } = useAddress();
  return h(
    Page,
    { title: "History" },
    h(HistoryForm, { params }),
    h(HistoryAnswer, { params }),
  );
}

function HistoryForm({ params }) {
  const { submit, text, choice } = useForm("history", ["theme", "action", "since", "until"], params);
  return h(
    "form",
    { className: "hpg-form", onSubmit: submit },
    h(
      "div",
      { className: "hpg-fields" },
      h(ThemeField, { help: "Empty: every theme", ...text("theme") }),
      h(SelectField, { label: "What was done", ...choice("action", ACTION_CHOICES) }),
      h(TextField, { label: "Since", help: "2026-05-03, 2026-05 or 7d", ...text("since") }),
      h(TextField, { label: "Until", help: "2026-05-03, 2026-05 or 7d", ...text("until") }),
    ),
    h("div", { className: "hpg-actions" }, h(Act, { type: "submit", tone: "main" }, "Show")),
  );
}

function HistoryAnswer({ params }) {
  const limit = 50;
  const offset = Number(params.offset) || 0;
  const { theme, action, since, until } = params;
  const answer = useAnswer("/history", { theme, action, since, until, limit, offset });
  return h(Answered, { answer }, ({ rows, more }) =>
    rows.length
      ? h(
          Fragment,
          null,
          h(Events, { events: rows, whose: true }),
          h(Pager, { offset, limit, count: rows.length, more, view: "history", params: { theme, action, since, until } }),
        )
      : h(Empty, { title: "Nothing happened" }, h("p", null, "Nothing of that kind, at that time.")),
  );
}
