// Package emu runs unmodified programs under emu and checks what they print: Debian's tools, ours, and one against
// the other, as root and as nobody, with the libraries of several Debian releases.
//
//	go test ./test/emu/...              what CI runs
//	PUREVERBS_FULL=1 go test ./test/emu/...   every program every way
package emu
