// The page of the smoke test: ten lines of an app.
import { Device } from "../../dist/index.js";

window.newDevice = (settings) =>
  new Device(new URLSearchParams(location.search).get("server"), {
    enrolmentKey: "key", attributes: { theme: () => localStorage.theme ?? "dark", country: "fr" }, ...settings,
  });
window.device = window.newDevice();
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
