function ThemesView() {
  return h(Page, { title: "Themes" });
}
