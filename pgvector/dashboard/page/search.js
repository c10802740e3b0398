function SearchView() {
  return h(Page, { title: "Search" });
}
