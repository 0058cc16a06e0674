// Package control is the emulator's control socket: a program, a test or a person at a shell changes the machine while
// programs run on it.
//
// A request is a line of words. The answer is a line of JSON: {"ok": VALUE} or {"error": "TEXT"}. One connection may
// send many requests.
package control

// Env is the variable in which programs find the socket's address.
const Env = "EMU_CONTROL"
