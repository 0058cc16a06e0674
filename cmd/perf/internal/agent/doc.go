// Package agent is perf serve, which runs tests for those that know its token, and the end that asks it.
//
// The agent speaks first: "pureverbs-agent 1 NONCE\n". The other end answers with a nonce of its own and the HMAC of
// both under the token, and the agent proves the same way that it knows the token. The token never travels. Each frame
// after that is a length, an HMAC under a key made of token and nonces, and a JSON object. A frame has a number, so
// that none can be left out, repeated or sent back.
//
// A test is a process of its own, a perf that the agent starts and ends: tests run beside each other, and one that dies
// takes nothing with it.
package agent

// DefaultPort is where an agent listens.
const DefaultPort = 18514
