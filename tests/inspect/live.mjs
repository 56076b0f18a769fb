// Runs jobs on the model of a page: node live.mjs script.js < a list of [job, arguments]

import { readFileSync } from "node:fs";
import { JOBS } from "./live_jobs.mjs";

const names = "makeLive, agreement, makeTokenizer, readText, greedyTranslation, cacheSteps, makeResidual";
const script = `${readFileSync(process.argv[2], "utf8")}\nexport { ${names} };`;
const api = await import(`data:text/javascript,${encodeURIComponent(script)}`);
const found = [];
for (const [job, given] of JSON.parse(readFileSync(0, "utf8"))) found.push(await JOBS[job](api, given));
console.log(JSON.stringify(found));
