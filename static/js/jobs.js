// A job's page follows the job while somebody looks; a plan's buttons work once.
"use strict";
(() => {
  // Planning takes seconds, and a second click would only ask again.
  for (const form of document.querySelectorAll("#plan-form, #confirm-form")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) {
        event.preventDefault();
        return;
      }
      form.dataset.sent = "yes";
      document.getElementById("main").setAttribute("aria-busy", "true");
    });
  }
  // A link carries what was chosen and nothing else.
  document.getElementById("plan-form")?.addEventListener("submit", (event) => {
    for (const field of event.target.elements) {
      if (field.name && field.type !== "checkbox" && !field.value.trim()) field.disabled = true;
    }
  });
  window.addEventListener("pageshow", () => {
    document.getElementById("main").removeAttribute("aria-busy");
    for (const form of document.querySelectorAll("#plan-form, #confirm-form")) {
      delete form.dataset.sent;
      for (const field of form.elements) field.disabled = false;
    }
  });

  const body = document.body;
  // Nobody looks, so nobody asks; the first look asks at once.
  body.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    const progress = document.querySelector("#progress[hx-get]");
    if (!document.hidden && progress) {
      htmx.ajax("GET", progress.getAttribute("hx-get"), { source: progress, target: progress, swap: "outerHTML" });
    }
  });
  // What came last time is on the page already: nothing moves, and nobody is told again.
  let shown = null;
  body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target?.id !== "progress") return;
    const version = event.detail.xhr.getResponseHeader("ETag");
    if (version && version === shown) event.detail.shouldSwap = false;
    shown = version;
  });
})();
