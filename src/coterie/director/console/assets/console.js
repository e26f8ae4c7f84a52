// What pages do besides links and forms. Every page works without it, but for live updates and the upload.
"use strict";

(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // -- theme: system, light, dark --
  const button = $("#theme");
  if (button) {
    const order = ["system", "light", "dark"];
    const show = () => { $("#theme-name").textContent = document.documentElement.dataset.theme || "system"; };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      const next = order[(order.indexOf(document.documentElement.dataset.theme || "system") + 1) % order.length];
      if (next === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = next;
      try { localStorage.setItem("theme", next); } catch { /* not kept */ }
      show();
    });
  }

  // -- the menu is folded on a phone --
  const menu = $("#menu");
  if (menu && matchMedia("(max-width: 899px)").matches) menu.open = false;
  document.addEventListener("click", (event) => {
    for (const open of all("details.menu[open], details.me[open]")) if (!open.contains(event.target)) open.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const open of all("details.menu[open], details.me[open]")) { open.open = false; $("summary", open).focus(); }
  });

  // -- live: the Director says that something changed, and the parts of the page read themselves again --
  const where = document.body.dataset.live;
  const state = $("#live-state");
  const say = (kind, words) => { if (state) { state.className = `live-state ${kind}`; state.textContent = words; } };
  if (where && window.EventSource) {
    let waiting = null;
    let last = 0;
    const open = new Set();
    let missed = false;
    const refresh = () => {
      waiting = null;
      if (document.hidden || open.size) { missed = true; return; }  // a part that is being read is replaced, and hears nothing
      last = Date.now();
      missed = false;
      document.body.dispatchEvent(new CustomEvent("live"));
    };
    const schedule = () => { waiting = waiting || setTimeout(refresh, Math.max(100, 900 - (Date.now() - last))); };
    document.body.addEventListener("htmx:beforeRequest", (event) => {
      if ((event.detail.elt.id || "").startsWith("live")) open.add(event.detail.xhr);
    });
    document.body.addEventListener("htmx:afterRequest", (event) => {
      open.delete(event.detail.xhr);
      if (!open.size && missed) schedule();
    });
    const source = new EventSource(where);
    source.addEventListener("open", () => say("ok", "● live"));
    source.addEventListener("changed", schedule);
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) {
        say("off", "○ not live");
        setTimeout(refresh, 200);
      } else say("warn", "▲ reconnecting");
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden && missed) schedule(); });
    addEventListener("pagehide", () => source.close());
  }

  // -- what the user has ticked, opened and focused outlives a live update --
  const keptOf = new Map();
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target;
    keptOf.set(target.id, {
      ticked: all("input[type=checkbox]:checked", target).map((one) => `${one.name} ${one.value}`),
      open: all("details", target).map((one) => one.open),
      focus: target.contains(document.activeElement) ? (document.activeElement.id || document.activeElement.dataset.host || document.activeElement.dataset.group || "") : "",
      scroll: all(".scroll, .map-frame, .line-frame", target).map((one) => [one.scrollLeft, one.scrollTop]),
    });
  });
  document.body.addEventListener("htmx:afterSettle", (event) => {
    const within = event.detail.elt;
    const kept = keptOf.get(within.id);
    if (!kept) return;
    keptOf.delete(within.id);
    for (const one of all("input[type=checkbox]", within)) if (kept.ticked.includes(`${one.name} ${one.value}`)) one.checked = true;
    all("details", within).forEach((one, n) => { if (kept.open[n]) one.open = true; });
    kept.scroll.forEach(([left, top], n) => {
      const one = all(".scroll, .map-frame, .line-frame", within)[n];
      if (one) { one.scrollLeft = left; one.scrollTop = top; }
    });
    if (kept.focus) {
      const again = all("[id], [data-host], [data-group]", within).find((one) => kept.focus === (one.id || one.dataset.host || one.dataset.group));
      if (again) again.focus({ preventScroll: true });
    }
  });
  document.body.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) location.href = "/login";
  });

  // -- the map: what is pointed at lights up, and its loss is said in words --
  const speak = (words) => { const place = $("#map-say"); if (place) place.textContent = words || "Nothing is pointed at."; };
  const light = (name, value) => {
    const picture = $("#map-picture");
    if (!picture) return;
    picture.classList.toggle("dim", Boolean(value));
    for (const one of all(".map-node", picture)) {
      const zone = one.closest("[data-host]");
      const of = name === "group" ? one.dataset.group : name === "host" ? zone && zone.dataset.host : one.closest("[data-rack]").dataset.rack;
      one.classList.toggle("lit", Boolean(value) && of === value);
    }
  };
  const lost = (nodes) => {
    const by = new Map();
    for (const one of nodes) by.set(one.dataset.group || "", (by.get(one.dataset.group || "") || 0) + 1);
    const words = [...by].filter(([group]) => group).map(([group, count]) => {
      const item = all(".group-list .group").find((one) => one.dataset.group === group);
      return `${count} of ${item ? $("strong", item).textContent : "a group"}`;
    });
    return words.length ? `: ${words.join(", ")}` : "";
  };
  const point = (target) => {
    const group = target.closest(".group[data-group]");
    if (group) {
      light("group", group.dataset.group);
      speak(all("p", group).slice(0, 3).map((one) => one.textContent.trim()).join(". "));
      return true;
    }
    const node = target.closest(".map-node[data-group]");
    const zone = target.closest(".map-zone");
    if (node && node.dataset.node) { light("group", node.dataset.group); speak(node.dataset.node); return true; }
    if (zone) {
      const name = zone.dataset.host ? "host" : "rack";
      light(name, zone.dataset[name]);
      speak(zone.dataset.say + lost(all(".map-node.lit")));
      return true;
    }
    return false;
  };
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      if (!(event.target instanceof Element) || !$("#map-picture")) return;
      if (!point(event.target)) { light("group", ""); speak(""); }
    });
  }

  // -- typed confirmation: the button waits for the right text --
  const match = () => {
    for (const one of all("input[data-match]")) {
      const button = $("button[type=submit]", one.form);
      if (button) button.disabled = one.value.trim() !== one.dataset.match;
    }
  };
  document.addEventListener("input", match);
  document.body.addEventListener("htmx:afterSettle", match);
  match();

  // -- a mistake leads to its line --
  document.addEventListener("click", (event) => {
    const line = event.target instanceof Element && event.target.closest("[data-line]");
    const area = $("#manifest");
    if (!line || !area) return;
    const lines = area.value.split("\n");
    const number = Math.min(lines.length, Number(line.dataset.line));
    const begin = lines.slice(0, number - 1).join("\n").length + (number > 1 ? 1 : 0);
    area.focus();
    area.setSelectionRange(begin, begin + lines[number - 1].length);
    area.scrollTop = (number - 4) * (area.scrollHeight / lines.length);
  });

  // -- the wizard: one step at a time, and the text once it was edited --
  const wizard = $("form[data-stepper]");
  if (wizard) {
    const steps = all("fieldset[data-step]", wizard);
    const nav = $(".stepper", wizard);
    const buttons = $(".stepper-buttons", wizard);
    const list = document.createElement("ul");
    let now = 0;
    const go = (number, focus) => {
      now = Math.max(0, Math.min(steps.length - 1, number));
      steps.forEach((one, n) => { one.hidden = n !== now; });
      all("button", list).forEach((one, n) => { if (n === now) one.setAttribute("aria-current", "step"); else one.removeAttribute("aria-current"); });
      $("[data-back]", buttons).disabled = now === 0;
      $("[data-next]", buttons).hidden = now === steps.length - 1;
      if (focus) { const first = $("input:not([type=hidden]), select", steps[now]); if (first) first.focus(); }
    };
    steps.forEach((one, n) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = one.dataset.step;
      button.addEventListener("click", () => go(n, true));
      item.append(button);
      list.append(item);
    });
    nav.append(list);
    nav.hidden = buttons.hidden = false;
    $("[data-back]", buttons).addEventListener("click", () => go(now - 1, true));
    $("[data-next]", buttons).addEventListener("click", () => go(now + 1, true));
    wizard.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target instanceof HTMLInputElement) { event.preventDefault(); go(now + 1, true); }
    });
    go(steps.findIndex((one) => one.dataset.step === sessionStorage.getItem("wizard-step")), false);
    wizard.addEventListener("submit", () => sessionStorage.setItem("wizard-step", steps[now].dataset.step));

    const edited = $("#edited");
    document.addEventListener("input", (event) => {
      if (event.target.id !== "manifest" || !edited.hidden) return;
      edited.hidden = false;
      for (const one of steps) one.disabled = true;
    });
    $("#drop-edits").addEventListener("click", () => {
      edited.hidden = true;
      for (const one of steps) one.disabled = false;
      wizard.dispatchEvent(new Event("change", { bubbles: true }));
    });
  }

  // -- upload with its progress --
  const upload = $("#upload");
  if (upload) {
    upload.addEventListener("submit", (event) => {
      event.preventDefault();
      const file = $("input[type=file]", upload).files[0];
      const bar = $("#upload-bar");
      const words = $("#upload-say");
      const request = new XMLHttpRequest();
      request.open("POST", upload.dataset.upload);
      request.setRequestHeader("Content-Type", "application/gzip");
      request.setRequestHeader("X-CSRF-Token", upload.dataset.csrf);
      request.upload.addEventListener("progress", (one) => {
        if (one.lengthComputable) bar.value = (one.loaded / one.total) * 100;
        words.textContent = one.loaded < one.total ? `${Math.round(bar.value)} % of ${file.name}` : `${file.name} arrived; it is being stored`;
      });
      request.addEventListener("load", () => {
        if (request.status === 201) { location.href = upload.dataset.done; location.reload(); return; }
        const said = new DOMParser().parseFromString(request.responseText, "text/html");
        words.textContent = (said.body.textContent || "").replace(/\s+/g, " ").trim() || `refused with status ${request.status}`;
        bar.hidden = true;
      });
      request.addEventListener("error", () => { words.textContent = "the connection was lost: upload it again"; bar.hidden = true; });
      bar.value = 0;
      bar.hidden = false;
      request.send(file);
    });
  }
})();
