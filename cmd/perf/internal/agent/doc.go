// Package agent is perf serve, which runs tests for those that know its token, and the end that asks it.
//
// The agent speaks first: "pureverbs-agent 1 NONCE\n". The other end replies with its own nonce and the HMAC of both
// under the token, and the agent proves the same way that it knows the token. The token never travels. Each frame after
// that is a length, an HMAC under a key made of token and nonces, and a JSON object. A frame has a number, so that none
// can be left out, repeated or sent back.
//
// A Runner runs the tests. That of tests for single clients starts a perf for each: tests run at the same time, and one
// that dies affects no other. In a mesh most hosts have one test at a time, and the agent's own process can run it.
package agent

// DefaultPort is where an agent listens.
const DefaultPort = 18514
