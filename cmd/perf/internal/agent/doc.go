// Package agent is rdmaperf serve, which runs tests for those that know its token, and the end that asks it.
//
// The end that listens greets with the version of the protocol. Then both ends speak TLS 1.3, with a key and a
// certificate that the listener made for the run, and which nobody checks. Instead each end sends an HMAC, keyed by the
// token, of its role and of keying material of the TLS connection (RFC 5705), the dialer first. So the token never
// travels, and nobody can stand between the two. Each frame after that is a length and a JSON object.
//
// A Runner runs the tests. That of tests for single clients starts an rdmaperf for each: tests run at the same time,
// and one that dies affects no other. In a mesh most hosts have one test at a time, and the agent's own process can run
// it.
package agent

// DefaultPort is where an agent listens.
const DefaultPort = 18514
