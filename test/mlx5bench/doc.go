// Package mlx5bench times posting and polling on the direct data path against libmlx5, and against the same algorithm
// in C (testdata). All run on the same emulated ConnectX in alternating rounds, each in a process of its own.
//
// The device takes no part in what is timed: doorbells go to a page that nobody reads while a queue is filled, and
// polling begins when all completions are there. All memory is ordinary memory. The figures are therefore the cost on
// the CPU, and say nothing about a NIC.
package mlx5bench
