// Package cm has the common parts of the connection manager's examples that are not rdmacm: the
// command line, waiting for a completion, the payload of datagrams, and the address of a datagram's
// sender.
package cm
