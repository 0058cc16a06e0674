// Package machine puts the emulated machine together: devices, network, files, strict mode, faults, trace and control
// socket. [Start] runs a program on it.
package machine
