// What Node programs do every day. Prints one line per subject, the same on every run.
const { execFileSync } = require("child_process");
const { Worker } = require("worker_threads");
const crypto = require("crypto");
const dns = require("dns");
const fs = require("fs");
const http = require("http");

fs.writeFileSync("file", "text");
fs.copyFileSync("file", "copy");
const watcher = fs.watch(".");
watcher.close();
console.log("files", fs.readdirSync("."), fs.statSync("copy").size);
console.log("child", execFileSync("echo", ["from", "child"]).toString());
console.log("hash", crypto.createHash("sha256").update("text").digest("hex"));

const worker = new Worker("require('worker_threads').parentPort.postMessage(6 * 7)", { eval: true });
worker.on("message", (answer) => {
  console.log("worker", answer);
  const server = http.createServer((_, response) => response.end("served"));
  server.listen(0, "127.0.0.1", async () => {
    const reply = await fetch(`http://127.0.0.1:${server.address().port}/`);
    console.log("http", await reply.text());
    server.close();
    dns.lookup("localhost", (error) => console.log("lookup", error));
  });
});
