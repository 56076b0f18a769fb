// Before the page's own script: whatever goes wrong, or out, is noted.
globalThis.faults = [];
for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"]) {
  addEventListener(kind, (event) => faults.push(`${kind} ${event.message ?? event.reason ?? event.blockedURI}`), true);
}
for (const name of ["alert", "confirm", "prompt", "fetch", "open"]) globalThis[name] = () => faults.push(name);
for (const name of ["error", "warn"]) console[name] = (...said) => faults.push(`${name} ${said}`);
