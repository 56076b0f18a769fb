// Waits for the page in the frame, and finds what reaches beyond its right edge.
const main = document.getElementById("main"), frame = document.getElementById("phone");
const add = (parent, name, { id }, text) => parent.append(Object.assign(document.createElement(name), { id, textContent: text }));
const isReady = () => frame.contentDocument?.querySelector(".chapter:last-of-type figure");
while (!isReady()) await new Promise((done) => setTimeout(done, 50));
const phone = frame.contentDocument.documentElement;
const beyond = [...phone.querySelectorAll("main *")]
  .filter((each) => each.getBoundingClientRect().right > phone.clientWidth + 1 && !each.closest(".scroll, nav, .spoken"))
  .map((each) => `${each.tagName} ${each.getAttribute("class")} ${each.textContent.slice(0, 40)}`);
