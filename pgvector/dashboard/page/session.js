function SessionView() {
  return h(Page, { title: "Session" });
}
