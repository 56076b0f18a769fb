// Code that is wider than the page can be scrolled with the keyboard; what opens a solution is named by its text.
for (const code of document.querySelectorAll("pre")) if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
for (const summary of document.querySelectorAll("summary[aria-label]")) summary.removeAttribute("aria-label");
