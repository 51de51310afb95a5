// Figures that come once per order become tabs; without this script they stand below each other.
for (const group of document.querySelectorAll("[data-tabs]")) {
  const panels = [...group.children];
  const list = document.createElement("div");
  list.className = "tabs";
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", group.dataset.tabs);
  const tabs = panels.map((panel, place) => {
    const tab = document.createElement("button");
    tab.textContent = panel.dataset.tab;
    tab.id = `${panel.id}-tab`;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => choose(place));
    list.append(tab);
    return tab;
  });
  const choose = (chosen) =>
    tabs.forEach((tab, place) => {
      tab.setAttribute("aria-selected", String(place === chosen));
      tab.tabIndex = place === chosen ? 0 : -1;
      panels[place].hidden = place !== chosen;
    });
  list.addEventListener("keydown", (event) => {
    const now = tabs.indexOf(document.activeElement);
    const last = tabs.length - 1;
    const next = { ArrowRight: now === last ? 0 : now + 1, ArrowLeft: now === 0 ? last : now - 1, Home: 0, End: last }[
      event.key
    ];
    if (next === undefined) return;
    event.preventDefault();
    choose(next);
    tabs[next].focus();
  });
  group.before(list);
  choose(0);
}
