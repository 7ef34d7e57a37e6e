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

  const copy = document.getElementById("copy-link");
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    document.getElementById("plain-link").hidden = true;
    copy.addEventListener("click", async () => {
      const status = document.getElementById("copy-status");
      try {
        await navigator.clipboard.writeText(new URL(copy.dataset.path, location.href).href);
        status.textContent = "Link copied";
      } catch {
        status.textContent = "The browser does not allow copying: use the address bar";
      }
    });
  }

  const table = document.querySelector("table.best");
  if (table) {
    document.getElementById("table-tools").hidden = false;
    document.getElementById("table-filter").addEventListener("input", (event) => {
      const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const body of table.tBodies) {
        const text = body.rows[0].cells[0].textContent.toLowerCase();
        body.hidden = !words.every((word) => text.includes(word));
        if (!body.hidden) shown += 1;
      }
      document.getElementById("table-status").textContent = `${shown} lines shown`;
    });
    document.getElementById("time-unit").addEventListener("change", (event) => {
      const unit = Number(event.target.value);
      for (const time of table.querySelectorAll("data.time")) {
        time.dataset.words ??= time.textContent;
        time.textContent = unit
          ? Number((time.value / unit).toPrecision(3)).toLocaleString("en")
          : time.dataset.words;
      }
    });
  }
  for (const heading of table?.querySelectorAll("thead th[data-sort]") ?? []) {
    const column = [...heading.parentNode.children].indexOf(heading);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const ascending = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (body) => {
        const cell = body.rows[0].cells[column];
        const data = cell?.querySelector("data");
        return data ? Number(data.value) : cell?.textContent.trim().toLowerCase() ?? "";
      };
      const sorted = [...table.tBodies].sort((one, other) => {
        const [a, b] = [key(one), key(other)];
        // What has no answer stays below, whichever way round.
        if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
        const order = typeof a === "number" ? a - b : a.localeCompare(b);
        return ascending ? order : -order;
      });
      table.append(...sorted);
    });
  }
})();
