// Keeps all files of this folder in the browser, so that the page opens and translates without a network.
// The export writes VERSION and FILES in here; another export has another version, and replaces the files.

const CACHE = `dragoman ${self.registration.scope} ${VERSION}`;

async function keep() {
  const cache = await caches.open(CACHE);
  await cache.addAll(FILES.map((file) => new Request(file, { cache: "no-cache" })));
  await self.skipWaiting();
}

async function forget() {
  const own = `dragoman ${self.registration.scope} `;
  for (const name of await caches.keys()) {
    if (name.startsWith(own) && name !== CACHE) await caches.delete(name);
  }
  await self.clients.claim();
}

async function answer(request) {
  const cache = await caches.open(CACHE);
  return (await cache.match(request, { ignoreSearch: true })) ?? fetch(request);
}

self.addEventListener("install", (event) => event.waitUntil(keep()));
self.addEventListener("activate", (event) => event.waitUntil(forget()));
self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(answer(event.request));
});
