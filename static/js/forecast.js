// Small comforts for the forecast page; everything works without them.
"use strict";
(() => {
  const form = document.getElementById("ask");

  // A link carries what was chosen and nothing else.
  form?.addEventListener("submit", () => {
    for (const field of form.elements) {
      if (!field.name || field.type === "checkbox") continue;
      const plain = field.value.replace(/[,\s]/g, "");
      if (plain === "" || plain === field.dataset.default) field.disabled = true;
      else if (field.dataset.number !== undefined) field.value = plain;
    }
  });
  form?.addEventListener("submit", () => {
    document.getElementById("main").setAttribute("aria-busy", "true");
    form.querySelector("button[type=submit]").textContent = "Forecasting…";
  });
  // Coming back with the browser's button finds the fields usable again.
  window.addEventListener("pageshow", () => {
    for (const field of form?.elements ?? []) field.disabled = false;
    document.getElementById("main").removeAttribute("aria-busy");
    const button = form?.querySelector("button[type=submit]");
    if (button) button.textContent = "Forecast";
  });

  for (const picker of document.querySelectorAll(".picker")) {
    const boxes = [...picker.querySelectorAll('input[type="checkbox"]')];
    const filter = picker.querySelector(".picker-filter");
    const summary = picker.querySelector("summary");
    filter.hidden = false;
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const box of boxes) {
        const label = box.closest("label");
        const text = label.textContent.toLowerCase();
        label.hidden = !words.every((word) => text.includes(word));
        label.style.display = label.hidden ? "none" : "";
      }
      for (const group of picker.querySelectorAll("fieldset")) {
        group.hidden = ![...group.querySelectorAll("label")].some((label) => !label.hidden);
      }
    });
    filter.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault();
    });
    picker.addEventListener("change", () => {
      const chosen = boxes.filter((box) => box.checked);
      const { word, nothing } = picker.dataset;
      summary.querySelector(".chosen").textContent =
        chosen.length === 0 ? nothing
          : chosen.length === 1 ? chosen[0].value : `${chosen.length} ${word}s`;
    });
    picker.addEventListener("toggle", () => {
      // The event comes late: somebody who types or tabs on is further in by now.
      const inside = document.activeElement !== summary && picker.contains(document.activeElement);
      if (picker.open && !inside) filter.focus();
    });
    summary.addEventListener("keydown", (event) => {
      const types = event.key.length === 1 && event.key !== " ";
      if (!types || event.ctrlKey || event.metaKey || event.altKey) return;
      // During keydown, so that the letter itself lands in the field.
      picker.open = true;
      filter.focus();
    });
    picker.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && picker.open) {
        picker.open = false;
        summary.focus();
      }
    });
    document.addEventListener("click", (event) => {
      if (picker.open && !picker.contains(event.target)) picker.open = false;
    });
  }

  function offerCopying() {
    const copy = document.getElementById("copy-link");
    if (!copy || !navigator.clipboard) return;
    copy.hidden = false;
    document.getElementById("plain-link").hidden = true;
  }
  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("#copy-link");
    if (!copy) return;
    const status = document.getElementById("copy-status");
    const address = new URL(copy.dataset.path, location.href);
    const chart = document.getElementById("table-chart").value;
    if (chart) address.searchParams.set("chart", chart);
    else address.searchParams.delete("chart");
    try {
      await navigator.clipboard.writeText(address.href.replaceAll("%2C", ","));
      status.textContent = "Link copied";
    } catch {
      status.textContent = "The browser does not allow copying: use the address bar";
    }
  });
  offerCopying();

  // The server makes every view of the table; htmx puts it in the place of the one before.
  document.addEventListener("htmx:beforeRequest", (event) => {
    event.detail.target.setAttribute("aria-busy", "true");
  });
  document.addEventListener("htmx:afterSwap", offerCopying);
  for (const failure of ["htmx:responseError", "htmx:sendError"]) {
    document.addEventListener(failure, (event) => {
      event.detail.target.removeAttribute("aria-busy");
      document.getElementById("table-status").textContent =
        "The table could not be loaded: the one before is still shown. Load the page again.";
    });
  }
})();
