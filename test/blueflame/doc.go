// Package blueflame runs ibv's tests of thread domains below the emulated device, in strict mode, which compares what
// arrives in a BlueFlame register with the send queue, and looks in the trace whether copies arrived at all: a data
// path that rings only plain doorbells would pass every other test.
package blueflame
