// Package mlx5bench times posting and polling on the direct data path against
// libmlx5, and against the same algorithm in C (testdata), on the emulated
// ConnectX: in turns, on the same device, each side in a process of its own.
//
// The device takes no part in what is timed: doorbells go to a page that nobody
// reads while a queue is filled, and polling begins when all completions are
// there. Memory is ordinary memory. So this is the cost of the CPU's part, and
// says nothing about a NIC.
package mlx5bench
