// Package blueflame runs ibv's tests of thread domains on the emulated device in strict mode, which compares what
// arrives in a BlueFlame register with the send queue. It also checks in the trace that copies of WQEs arrive at all: a
// data path that only rings 8-byte doorbells would pass every other test.
package blueflame
