// Package agent is perf serve, which runs tests for those that know its token, and the end that asks it.
//
// The agent speaks first: "pureverbs-agent 1 NONCE\n". The other end replies with its own nonce and the HMAC of both
// under the token, and the agent proves the same way that it knows the token. The token never travels. Each frame after
// that is a length, an HMAC under a key made of token and nonces, and a JSON object. A frame has a number, so that none
// can be left out, repeated or sent back.
//
// Each test is a process, a perf that the agent starts and ends: tests run at the same time, and one that dies affects
// no other.
package agent

// DefaultPort is where an agent listens.
const DefaultPort = 18514
