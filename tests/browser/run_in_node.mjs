/* Runs one call of harness.mjs in Node: { module, call, argument } comes in as JSON, the result goes out as JSON. */
import { stdin, stdout } from "node:process";
import { openAll, policyErrors, verifyAll, vectors } from "./harness.mjs";

let input = "";
for await (const chunk of stdin.setEncoding("utf8")) input += chunk;
const { module, call, argument } = JSON.parse(input);
const rs1 = await import(module);
stdout.write(JSON.stringify(await { openAll, policyErrors, verifyAll, ...vectors }[call](rs1, argument)));
