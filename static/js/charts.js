// Draws the page's figures with plotly.js, in the colours of the style sheet, one tab at a time.
"use strict";
(() => {
  const source = document.getElementById("figures");
  const section = document.getElementById("charts");
  if (!source || !section || !window.Plotly) return;

  const { charts: figures, hover } = JSON.parse(source.textContent);
  const charts = [...section.querySelectorAll(".chart")];
  const tabs = [...section.querySelectorAll('[role="tab"]')];
  const config = { displayModeBar: false, responsive: true };

  // "@series-1/0.13" is the style sheet's --series-1 with that opacity.
  function colour(token) {
    const [name, opacity] = token.slice(1).split("/");
    const hex = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    if (opacity === undefined) return hex;
    const full = hex.length === 4 ? hex.replace(/[0-9a-f]/gi, "$&$&") : hex;
    const parts = [1, 3, 5].map((start) => parseInt(full.slice(start, start + 2), 16));
    return `rgba(${parts.join(",")},${opacity})`;
  }

  function coloured(value) {
    if (typeof value === "string") return value.startsWith("@") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, coloured(part)]));
  }

  async function draw(chart) {
    const plot = chart.querySelector(".plot");
    const figure = coloured(figures[plot.dataset.figure]);
    for (const trace of figure.data) {
      if (trace.text !== undefined) {
        trace.text = hover[trace.text].map((lines) => lines.replaceAll("\n", "<br>"));
      }
    }
    const family = getComputedStyle(document.body).fontFamily;
    figure.layout.font.family = family;
    figure.layout.hoverlabel.font.family = family;
    plot.hidden = false;
    if (plot.clientWidth < 600) {
      // A phone has no room for names beside the lines; the legend below has them.
      figure.layout.annotations = [];
      figure.layout.margin.r = 12;
      figure.layout.yaxis.title = undefined;
      if (figure.layout.xaxis.type === "log") {
        // Ticks may turn here, and then need more room.
        figure.layout.xaxis.automargin = figure.layout.yaxis.automargin = true;
        figure.layout.margin.l = figure.layout.margin.b = 8;
      }
      figure.layout.font.size = 11;
    }
    await window.Plotly.react(plot, figure.data, figure.layout, config);
    plot.removeAttribute("aria-busy");
  }

  function show(slug, focus) {
    for (const tab of tabs) {
      const selected = tab.dataset.chart === slug;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      if (selected && focus) tab.focus();
    }
    for (const chart of charts) chart.hidden = chart.dataset.chart !== slug;
    const shown = charts.find((chart) => !chart.hidden);
    if (shown) draw(shown);
  }

  // The chart in front is part of the forecast's link; on other pages an anchor names it.
  function remember(slug) {
    const fields = document.querySelectorAll(".chosen-chart");
    if (fields.length === 0) {
      history.replaceState(null, "", `#${slug}`);
      return;
    }
    const chosen = slug === charts[0].dataset.chart ? "" : slug;
    for (const field of fields) field.value = chosen;
    const address = new URL(location.href);
    address.hash = "";
    if (chosen) address.searchParams.set("chart", chosen);
    else address.searchParams.delete("chart");
    history.replaceState(null, "", address.href.replaceAll("%2C", ","));
  }

  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => {
      remember(tab.dataset.chart);
      show(tab.dataset.chart, false);
    });
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = tabs[(index + step + tabs.length) % tabs.length];
      remember(next.dataset.chart);
      show(next.dataset.chart, true);
    });
  });
  if (tabs.length > 1) section.querySelector(".tabs").hidden = false;

  const asked = section.dataset.chosen || location.hash.slice(1);
  show(figures[asked] ? asked : charts[0].dataset.chart, false);
  // Paper is light whatever the screen is.
  for (const medium of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(medium).addEventListener("change", () => {
      const shown = charts.find((chart) => !chart.hidden);
      if (shown) draw(shown);
    });
  }
})();
