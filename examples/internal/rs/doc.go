// Package rs has the common parts of the examples on package rsocket: connecting, and three ways of waiting for a
// socket that is not ready.
package rs
