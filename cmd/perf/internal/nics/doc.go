// Package nics finds the ports of adapters that an agent tests: all of a host, those that are listed, or the nearest
// ones of each GPU.
package nics
