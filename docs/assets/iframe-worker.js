// The theme's search runs in a worker, which browsers refuse for pages opened from disk. There, a
// hidden frame takes its place: same messages, same importScripts.
(() => {
  if (location.protocol !== "file:") return;
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const base = new URL(url, document.baseURI).href;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => new Promise((done, failed) => {
        const script = inside.document.createElement("script");
        script.src = new URL(one, base).href;
        script.onload = done;
        script.onerror = failed;
        inside.document.body.append(script);
      })), Promise.resolve());
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside = inside;
      this.ready = inside.importScripts(base);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  }
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
