// As much of a browser as the scripts of our pages need. An attribute that is no number fails.

export class Element {
  constructor(name, namespaceURI) {
    Object.assign(this, { name, namespaceURI, attributes: {}, children: [] });
    this.own = "";
    this.listeners = {};
    this.style = { setProperty: (key, value) => (this.style[key] = String(value)) };
    const names = () => new Set((this.attributes.class ?? "").split(" ").filter(Boolean));
    this.classList = {
      toggle: (one, on) => {
        const all = names();
        on ? all.add(one) : all.delete(one);
        this.attributes.class = [...all].join(" ");
      },
    };
  }
  get clientWidth() { return Element.width; }
  get textContent() { return this.own + this.children.map((each) => each.textContent).join(""); }
  set textContent(text) { this.children = []; this.own = text; }
  setAttribute(key, value) {
    if (/NaN|undefined|Infinity/.test(value)) throw Error(`${this.name} ${key}=${value}`);
    this.attributes[key] = String(value);
  }
  append(child) { this.children.push(child); }
  addEventListener(kind, listener) { this.listeners[kind] = listener; }
  dispatch(kind, event = {}) { this.listeners[kind]?.({ preventDefault() {}, ...event }); }
  getComputedTextLength() { return 8 * this.textContent.length; }
  getBoundingClientRect() { return { left: 0, top: 0 }; }
  getElementsByTagName(name) { return this.children.filter((child) => child.name === name); }
  focus() {
    document.activeElement?.dispatch("blur");
    document.activeElement = this;
    this.dispatch("focus");
  }
  all() { return [this, ...this.children.flatMap((child) => child.all())]; }
  withClass(name) {
    return this.all().filter((each) => (each.attributes.class ?? "").split(" ").includes(name));
  }
  named(name) { return this.all().filter((each) => each.name === name); }
}

// A document with elements of these ids; the script runs when it is imported.
export async function open(ids, script, data, width) {
  Element.width = width;
  const elements = Object.fromEntries(ids.map((id) => [id, new Element(id, "")]));
  globalThis.document = {
    body: new Element("body", ""),
    documentElement: new Element("html", ""),
    getElementById: (id) => elements[id],
    createElementNS: (namespace, name) => new Element(name, namespace),
  };
  elements.data.textContent = data;
  await import(`data:text/javascript,${encodeURIComponent(script)}`);
  return elements;
}
