// Package cm is what the connection manager's examples have in common and is not
// rdmacm: the command line, waiting for a completion, the payload of datagrams,
// the way back to the sender of one.
package cm
