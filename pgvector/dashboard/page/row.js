function RowView() {
  return h(Page, { title: "One row" });
}
