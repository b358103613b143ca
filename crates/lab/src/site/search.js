// SPDX-License-Identifier: GPL-2.0-only
// Finds the sections that contain all words. The index is loaded with the first word.
"use strict";
(() => {
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  const most = 20;
  let index = null;
  let asked = false;

  window.flschedSearch = (entries) => {
    const lower = (it) => ({ ...it, inText: it.text.toLowerCase(), inTitle: `${it.title} ${it.heading}`.toLowerCase() });
    index = entries.map(lower);
    show();
  };

  const load = () => {
    if (asked) return;
    asked = true;
    const script = document.createElement("script");
    script.src = `${input.dataset.up}search-index.js`;
    document.body.append(script);
  };

  // A word of a title counts more than one of the text.
  const score = (entry, words) => {
    let sum = 0;
    for (const word of words) {
      if (entry.inTitle.includes(word)) sum += 10;
      else if (!entry.inText.includes(word)) return 0;
      sum += 1;
    }
    return sum;
  };

  const item = (entry, word) => {
    const at = Math.max(0, entry.inText.indexOf(word) - 60);
    const link = document.createElement("a");
    link.href = `${input.dataset.up}${entry.page}${entry.anchor ? "#" : ""}${entry.anchor}`;
    link.textContent = entry.heading && entry.heading !== entry.title ? `${entry.title}: ${entry.heading}` : entry.title;
    const text = document.createElement("p");
    text.textContent = entry.text.slice(at, at + 200);
    const row = document.createElement("li");
    row.append(link, text);
    return row;
  };

  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter((it) => it);
    found.hidden = !words.length;
    if (!words.length || !index) return;
    const hits = index.map((entry) => [score(entry, words), entry]).filter(([points]) => points > 0);
    hits.sort(([one], [other]) => other - one);
    const line = document.createElement("p");
    line.textContent = hits.length > most ? `${hits.length} sections, the first ${most}:` : `${hits.length} sections`;
    const list = document.createElement("ul");
    list.append(...hits.slice(0, most).map(([, entry]) => item(entry, words[0])));
    found.replaceChildren(line, list);
  };

  input.addEventListener("input", () => {
    load();
    show();
  });
})();
