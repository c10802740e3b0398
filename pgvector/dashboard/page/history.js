function HistoryView() {
  return h(Page, { title: "History" });
}
