// The only script of the dashboard: parts that renew themselves, copy buttons, and "/" for the search field.
"use strict";

function renew(part) {
  const every = Number(part.dataset.every);
  const step = async () => {
    const busy = document.hidden || part.matches(":focus-within") || part.querySelector("details[open]");
    if (!busy) {
      try {
        const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" } });
        if (answer.ok) part.innerHTML = await answer.text(); // escaped by the server; the policy forbids inline script
      } catch {
        // the gateway is away: what was shown stays
      }
    }
    setTimeout(step, every);
  };
  setTimeout(step, every);
}

document.querySelectorAll("[data-live]").forEach(renew);

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "Copied";
});

document.addEventListener("keydown", (event) => {
  const field = document.querySelector("[data-slash]");
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "/" && field && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    field.focus();
  }
});
